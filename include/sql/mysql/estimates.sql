-- Estimates the size of tables without reading them.
-- Called by: a comparison.
-- Placeholder: ${tables} the condition on table_schema and table_name.
-- Parameters: those of ${tables}.
-- Result: database, table, rows, bytes.
-- Privileges: any on the tables.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT table_schema, table_name, table_rows, COALESCE(data_length, 0) FROM information_schema.tables WHERE ${tables}
