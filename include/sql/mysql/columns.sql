-- The columns of tables. Called by: whatever looks at a slave's tables. Placeholder: ${tables} the condition on
-- table_schema and table_name. Parameters: those of ${tables}. Views have none here.
-- Result: database, table, column, type, position, YES where it may be NULL, default, extras, collation.
-- Privileges: any on the tables.
SELECT table_schema, table_name, column_name, column_type, ordinal_position, is_nullable, column_default, extra,
       collation_name
FROM information_schema.columns
WHERE ${tables}
  AND EXISTS (SELECT 1 FROM information_schema.tables t
              WHERE t.table_schema = columns.table_schema AND t.table_name = columns.table_name
                AND t.table_type = 'BASE TABLE')
ORDER BY table_schema, table_name, ordinal_position
