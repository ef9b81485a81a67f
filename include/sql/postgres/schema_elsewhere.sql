-- Other schemas that contain the tables of a replication: the former default was public.
-- Called by: tasks and commands that find none in the configured schema.
-- Parameters: schema text: where they are not; relations text[]: names of tables that are always together.
-- Result: name, quoted name. Only tables of this account or of a superuser count: nobody else can fake an installation.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT n.nspname::text, format('%%I', n.nspname)
FROM pg_catalog.pg_namespace n
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' AND c.relname = ANY (%(relations)s::text[])
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner AND (r.rolsuper OR r.rolname = current_user)
WHERE n.nspname <> %(schema)s AND n.nspname !~ '^pg_'
GROUP BY n.nspname
HAVING count(*) = cardinality(%(relations)s::text[])
   AND bool_and(pg_catalog.has_schema_privilege(n.nspname, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'))
ORDER BY n.nspname
