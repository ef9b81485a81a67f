-- What a failover cannot create, because the account has no other rights than the ownership of the tables.
-- Called by: sluice.failover, on the slave.
-- Parameters: granted text[]: schemas whose privileges are granted to others; owners text[], spaces text[] (pairs):
--   roles that objects in these schemas are given to, '' for no schema; given text[], givers text[] (pairs): schemas and
--   the roles that they are given to; database bool, roles bool: settings of the database, or of roles in it, are to be
--   created.
-- Result: kind (grant, superuser, member, create, schema, schemas, database, roles); schema or role, quoted where it
--   needs it; schema.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH me AS (
    SELECT oid, rolsuper, rolcreaterole FROM pg_catalog.pg_roles WHERE rolname = current_user
), given AS (
    SELECT n.oid, n.nspname, n.nspowner, r.oid AS role, r.rolname, r.rolsuper
    FROM unnest(%(given)s::text[], %(givers)s::text[]) AS w (space, role)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.space
    JOIN pg_catalog.pg_roles r ON r.rolname = w.role
), owners AS (
    SELECT DISTINCT r.oid, r.rolname, r.rolsuper, n.oid AS space, n.nspname
    FROM unnest(%(owners)s::text[], %(spaces)s::text[]) AS w (role, space)
    JOIN pg_catalog.pg_roles r ON r.rolname = w.role
    LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.space
    UNION
    SELECT role, rolname, rolsuper, NULL, NULL FROM given
)
SELECT 'grant', quote_ident(n.nspname), n.nspname::text FROM pg_catalog.pg_namespace n
WHERE n.nspname = ANY (%(granted)s::text[])
  AND NOT (has_schema_privilege(n.oid, 'USAGE WITH GRANT OPTION') AND has_schema_privilege(n.oid, 'CREATE WITH GRANT OPTION'))
UNION
-- Nobody is made a member of a superuser for that.
SELECT 'superuser', quote_ident(o.rolname), o.rolname::text FROM owners o, me WHERE o.rolsuper AND NOT me.rolsuper
UNION
SELECT 'member', quote_ident(o.rolname), '' FROM owners o
WHERE NOT o.rolsuper
  AND NOT pg_has_role(o.oid, CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
UNION
SELECT 'create', quote_ident(o.rolname), o.nspname::text FROM owners o, me
WHERE NOT me.rolsuper AND NOT o.rolsuper AND NOT has_schema_privilege(o.oid, o.space, 'CREATE')
  -- Who is given the schema may create in it.
  AND NOT EXISTS (SELECT FROM given g WHERE g.oid = o.space AND g.role = o.oid)
UNION
SELECT 'schema', quote_ident(g.nspname), g.nspname::text FROM given g, me
WHERE NOT me.rolsuper AND NOT g.rolsuper AND NOT pg_has_role(g.nspowner, 'USAGE')
UNION
SELECT 'schemas', '', '' FROM me
WHERE NOT me.rolsuper AND EXISTS (SELECT FROM given g WHERE NOT g.rolsuper AND pg_has_role(g.nspowner, 'USAGE'))
  AND NOT has_database_privilege(current_database(), 'CREATE')
UNION
SELECT 'database', '', '' FROM pg_catalog.pg_database d
WHERE %(database)s AND d.datname = current_database() AND NOT pg_has_role(d.datdba, 'USAGE')
UNION
SELECT 'roles', '', '' FROM me WHERE %(roles)s AND NOT (rolsuper OR rolcreaterole)
ORDER BY 1, 2, 3
