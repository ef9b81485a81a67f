-- Objects with Sluice's names that do not belong to this account.
-- Called by: the preflight, and before Sluice's objects are created, on master and slave.
-- Parameters: schema text, relations text[], functions text[]: names that Sluice uses there; captures text: the
--   beginning of the names of trigger functions (NULL: there are none).
-- Result, one row an object: the kind as ALTER takes it, quoted name with the schema, owner quoted, whether the owner
--   is a superuser.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH place AS (
    SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname = %(schema)s
), found (kind, name, owner) AS (
    -- Whatever has the name: CREATE TABLE IF NOT EXISTS is content with a view or a foreign table.
    SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
               WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'c' THEN 'TYPE' WHEN 'i' THEN 'INDEX' WHEN 'I' THEN 'INDEX' ELSE 'TABLE' END,
           format('%%I.%%I', n.nspname, c.relname), c.relowner
    FROM place n
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = ANY (%(relations)s::text[])
    UNION ALL
    SELECT 'TYPE', format('%%I.%%I', n.nspname, t.typname), t.typowner
    FROM place n
    JOIN pg_catalog.pg_type t ON t.typnamespace = n.oid AND t.typrelid = 0 AND t.typname = ANY (%(relations)s::text[])
    UNION ALL
    -- Of any parameters: one that fits a call better than Sluice's own would be called in its place.
    SELECT 'ROUTINE',
           format('%%I.%%I(%%s)', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid)), p.proowner
    FROM place n
    JOIN pg_catalog.pg_proc p ON p.pronamespace = n.oid
     AND (p.proname = ANY (%(functions)s::text[]) OR starts_with(p.proname, %(captures)s::text))
)
SELECT f.kind, f.name, format('%%I', r.rolname), r.rolsuper
FROM found f
JOIN pg_catalog.pg_roles r ON r.oid = f.owner
WHERE r.rolname <> current_user
ORDER BY f.kind DESC, f.name
