-- Columns that become NOT NULL as soon as every row has its value, found by the checks that record this.
-- Called by: the apply and the initial update's finish, on the slave.
-- Parameters: begins text: the beginning of the names of the checks.
-- Result: schema and name of the table, constraint name, column.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT n.nspname::text, c.relname::text, k.conname::text, a.attname::text
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND ARRAY[a.attnum] = k.conkey
WHERE k.contype = 'c' AND starts_with(k.conname::text, %(begins)s::text)
