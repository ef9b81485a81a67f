-- The foreign keys between tables of the slave.
-- Called by: sluice.vendors.postgres.target, for the order in which tables are written.
-- Parameters: $1 schemas text[], $2 names text[] (pairs, same order): the tables that refer to others.
-- Result: child schema, child name, parent schema, parent name, whether rows go with the row they refer to; distinct.
-- Privileges: none. Oldest version: PostgreSQL 13.
SELECT cn.nspname::text, c.relname::text, pn.nspname::text, p.relname::text, bool_or(f.confdeltype = 'c')
FROM unnest($1::text[], $2::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace cn ON cn.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = cn.oid AND c.relname = w.name
JOIN pg_catalog.pg_constraint f ON f.conrelid = c.oid AND f.contype = 'f' AND f.conparentid = 0
JOIN pg_catalog.pg_class p ON p.oid = f.confrelid
JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
