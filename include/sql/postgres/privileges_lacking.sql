-- The privileges that this account lacks on tables to which it must write.
-- Called by: the initial update, on the slave.
-- Parameters: schemas text[], names text[] (pairs).
-- Result: schema, name, the missing privileges as text[]; tables without missing ones are left out.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT w.schema, w.name, array_agg(p.privilege ORDER BY p.n)
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY AS p (privilege, n)
WHERE c.relkind IN ('r', 'p') AND NOT has_table_privilege(c.oid, p.privilege)
GROUP BY w.schema, w.name
