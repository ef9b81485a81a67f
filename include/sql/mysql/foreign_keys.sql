-- The foreign keys of tables, one row a column.
-- Called by: sluice.vendors.mysql.catalog.
-- Placeholder: ${tables} the condition on the referring or the referred table.
-- Parameters: those of ${tables}.
-- Result: database, table, name, column; database, table, column that it refers to; its actions ON UPDATE and ON
--   DELETE.
-- Privileges: any on the tables.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT k.table_schema, k.table_name, k.constraint_name, k.column_name, k.referenced_table_schema,
       k.referenced_table_name, k.referenced_column_name, r.update_rule, r.delete_rule
FROM (SELECT * FROM information_schema.key_column_usage WHERE referenced_table_name IS NOT NULL AND ${tables}) AS k
JOIN information_schema.referential_constraints r
  ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name
ORDER BY k.table_schema, k.table_name, k.constraint_name, k.ordinal_position
