-- What this account may do in schemas.
-- Called by: the preflight, on master and slave.
-- Parameter: schemas text[].
-- Result, one row a schema: name, quoted name, its owner quoted (NULL: there is no such schema), USAGE, CREATE (bools).
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT w.schema, format('%%I', w.schema), CASE WHEN r.oid IS NOT NULL THEN format('%%I', r.rolname) END,
       coalesce(pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false),
       coalesce(pg_catalog.has_schema_privilege(n.oid, 'CREATE'), false)
FROM (SELECT DISTINCT unnest(%(schemas)s::text[])) AS w (schema)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
LEFT JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
ORDER BY w.schema
