-- The tables and views that have one of some names.
-- Called by: a preparation of a slave; the creation of its tables; its preflight checks; a comparison.
-- Placeholder: ${names} the condition on table_schema and table_name.
-- Parameters: those of ${names}.
-- Result: database, name, BASE TABLE or VIEW.
-- Privileges: any on the tables.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE ${names}
