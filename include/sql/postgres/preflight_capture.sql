-- Functions of capture triggers that the owner of a partitioned table may not execute, so that he could not create or
-- attach partitions.
-- Called by: the preflight, on a master with resources.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result, one row a function: quoted name with the schema, the table's quoted name, its owner quoted.
-- Privileges: SELECT on ${prefix}captures.
-- Oldest version: PostgreSQL 13.
SELECT DISTINCT format('%I.%I()', pn.nspname, p.proname), format('%I.%I', n.nspname, c.relname), format('%I', r.rolname)
FROM ${schema}.${prefix}captures h
JOIN pg_catalog.pg_class c ON c.oid = h.relid AND c.relkind = 'p'
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
JOIN pg_catalog.pg_trigger g ON g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgname = ANY (h.triggers)
    AND g.tgtype & 1 = 1 -- FOR EACH ROW: each partition gets its own
JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid
JOIN pg_catalog.pg_namespace pn ON pn.oid = p.pronamespace
WHERE NOT pg_catalog.has_function_privilege(c.relowner, p.oid, 'EXECUTE')
ORDER BY 1
