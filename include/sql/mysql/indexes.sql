-- The indexes of tables, a row a column. Called by: whatever looks at a slave's tables. Placeholder: ${tables} the condition
-- on table_schema and table_name. Parameters: those of ${tables}.
-- Result: database, table, index, whether it is unique, column (NULL: an expression), how many characters of it
--   (NULL: all). Privileges: any on the tables.
SELECT table_schema, table_name, index_name, NOT non_unique, column_name, sub_part
FROM information_schema.statistics
WHERE ${tables}
ORDER BY table_schema, table_name, index_name, seq_in_index
