-- Checks of domains.
-- Called by: the comparison of definitions, on master and slave.
-- Parameters: schemas text[], names text[]: types (pairs); types that are no domains are left out.
-- Result: schema, name of the domain, constraint name, definition, without NOT VALID. The name of NOT NULL is empty:
--   before PostgreSQL 17 it has none.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH domains AS (
    SELECT s.nspname::text AS schema, t.typname::text AS name, t.oid, t.typnotnull
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace s ON s.nspname = w.schema
    JOIN pg_catalog.pg_type t ON t.typnamespace = s.oid AND t.typname = w.name AND t.typtype = 'd'
)
SELECT d.schema, d.name, k.conname::text, regexp_replace(pg_catalog.pg_get_constraintdef(k.oid), ' NOT VALID$', '')
FROM domains d JOIN pg_catalog.pg_constraint k ON k.contypid = d.oid AND k.contype = 'c'
UNION ALL
SELECT d.schema, d.name, '', 'NOT NULL' FROM domains d WHERE d.typnotnull
ORDER BY 1, 2, 3
