-- Checks of domains.
-- Called by: the comparison of definitions, on master and slave.
-- Parameters: schemas text[], names text[]: types (pairs); types that are no domains are left out.
-- Result: schema, name of the domain, constraint name, definition, without NOT VALID.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT s.nspname::text, t.typname::text, k.conname::text,
       regexp_replace(pg_catalog.pg_get_constraintdef(k.oid), ' NOT VALID$', '')
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace s ON s.nspname = w.schema
JOIN pg_catalog.pg_type t ON t.typnamespace = s.oid AND t.typname = w.name
JOIN pg_catalog.pg_constraint k ON k.contypid = t.oid AND k.contype = 'c'
ORDER BY 1, 2, 3
