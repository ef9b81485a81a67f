-- The columns of tables, not of views.
-- Called by: sluice.vendors.mysql.catalog.
-- Placeholder: ${tables} the condition on table_schema and table_name.
-- Parameters: those of ${tables}.
-- Result: database, table, column, type, position, YES if it may be NULL, default, extras, collation.
-- Privileges: any on the tables.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT table_schema, table_name, column_name, column_type, ordinal_position, is_nullable, column_default, extra,
       collation_name
FROM information_schema.columns
WHERE ${tables}
  AND EXISTS (SELECT 1 FROM information_schema.tables t
              WHERE t.table_schema = columns.table_schema AND t.table_name = columns.table_name
                AND t.table_type = 'BASE TABLE')
ORDER BY table_schema, table_name, ordinal_position
