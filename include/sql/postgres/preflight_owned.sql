-- Sluice's own objects that do not belong to this account: made by hand, or by another account.
-- Called by: the preflight, on master and slave. Parameters: schema text, relations text[], functions text[]: names that
--   Sluice uses there; captures text: how the names of the functions of triggers begin (NULL: there are none).
-- Result, one row an object: the kind as ALTER takes it, quoted name with the schema, owner quoted.
-- Privileges: none. Oldest version: PostgreSQL 13.
SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
       format('%%I.%%I', n.nspname, c.relname), format('%%I', r.rolname)
FROM pg_catalog.pg_namespace n
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = ANY (%(relations)s::text[]) AND c.relkind IN ('r', 'v', 'S')
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
WHERE n.nspname = %(schema)s AND NOT pg_catalog.pg_has_role(current_user, c.relowner, 'USAGE')
UNION ALL
SELECT 'FUNCTION',
       format('%%I.%%I(%%s)', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid)), format('%%I', r.rolname)
FROM pg_catalog.pg_namespace n
JOIN pg_catalog.pg_proc p ON p.pronamespace = n.oid
 AND (p.proname = ANY (%(functions)s::text[]) OR starts_with(p.proname, %(captures)s::text))
JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
WHERE n.nspname = %(schema)s AND NOT pg_catalog.pg_has_role(current_user, p.proowner, 'USAGE')
ORDER BY 1 DESC, 2
