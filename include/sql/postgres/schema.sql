-- The schema of Sluice's own objects. Each statement is a section with its name.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.

-- name: schema_creators
-- Roles that may create objects in a schema: Sluice would use an object of theirs under one of its names.
-- Called by: the preflight, and before Sluice's objects are created, on master and slave. Parameter: schema text. Result,
--   one row a role: its quoted name (PUBLIC: everybody), whether it owns the schema, whether the schema holds relations
--   that do not belong to this account. Superusers, and roles that may act as this account, are left out: they can do
--   whatever it may do. The owner of the schema can grant himself CREATE.
WITH place AS (
    SELECT n.oid, n.nspowner, n.nspacl FROM pg_catalog.pg_namespace n WHERE n.nspname = %(schema)s
), holder (role, owner) AS (
    SELECT p.nspowner, true FROM place p
    UNION ALL
    SELECT a.grantee, false FROM place p CROSS JOIN LATERAL pg_catalog.aclexplode(p.nspacl) a
    WHERE a.privilege_type = 'CREATE' AND a.grantee <> p.nspowner
)
SELECT DISTINCT CASE WHEN h.role = 0 THEN 'PUBLIC' ELSE format('%%I', r.rolname) END, h.owner,
       EXISTS (SELECT FROM place p JOIN pg_catalog.pg_class c ON c.relnamespace = p.oid
               WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND pg_catalog.pg_get_userbyid(c.relowner) <> current_user)
FROM holder h
LEFT JOIN pg_catalog.pg_roles r ON r.oid = h.role
-- The only member of pg_database_owner is the owner of the database.
LEFT JOIN pg_catalog.pg_database d ON d.datname = current_database() AND r.rolname = 'pg_database_owner'
LEFT JOIN pg_catalog.pg_roles j ON j.oid = coalesce(d.datdba, h.role)
WHERE h.role = 0 OR NOT (j.rolsuper OR pg_catalog.pg_has_role(j.oid, current_user, 'MEMBER'))
ORDER BY 2 DESC, 1

-- name: schema_elsewhere
-- Other schemas that contain the tables of a replication: the former default was public.
-- Called by: tasks and commands that find none in the configured schema.
-- Parameters: schema text: where they are not; relations text[]: names of tables that are always together.
-- Result: name, quoted name. Only tables of this account or of a superuser count: nobody else can fake an installation.
SELECT n.nspname::text, format('%%I', n.nspname)
FROM pg_catalog.pg_namespace n
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' AND c.relname = ANY (%(relations)s::text[])
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner AND (r.rolsuper OR r.rolname = current_user)
WHERE n.nspname <> %(schema)s AND n.nspname !~ '^pg_'
GROUP BY n.nspname
HAVING count(*) = cardinality(%(relations)s::text[])
   AND bool_and(pg_catalog.has_schema_privilege(n.nspname, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'))
ORDER BY n.nspname
