-- The indexes of tables, one row a column.
-- Called by: sluice.vendors.mysql.catalog.
-- Placeholder: ${tables} the condition on table_schema and table_name.
-- Parameters: those of ${tables}.
-- Result: database, table, index, unique bool, column (NULL: an expression), number of its indexed characters (NULL:
--   all).
-- Privileges: any on the tables.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT table_schema, table_name, index_name, NOT non_unique, column_name, sub_part
FROM information_schema.statistics
WHERE ${tables}
ORDER BY table_schema, table_name, index_name, seq_in_index
