-- The enabled foreign keys of tables, one row a column.
-- Called by: sluice.vendors.oracle.catalog.
-- Placeholder: ${tables} the condition on the referring or the referred table.
-- Parameters: those of ${tables}.
-- Result: owner, table, name, column; owner, table, column that it refers to; its action ON DELETE; DEFERRABLE or NOT
--   DEFERRABLE.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT k.OWNER, k.TABLE_NAME, k.CONSTRAINT_NAME, c.COLUMN_NAME, p.OWNER, p.TABLE_NAME, p.COLUMN_NAME, k.DELETE_RULE,
       k.DEFERRABLE
FROM ALL_CONSTRAINTS k
JOIN ALL_CONS_COLUMNS c ON c.OWNER = k.OWNER AND c.CONSTRAINT_NAME = k.CONSTRAINT_NAME
JOIN ALL_CONS_COLUMNS p ON p.OWNER = k.R_OWNER AND p.CONSTRAINT_NAME = k.R_CONSTRAINT_NAME AND p.POSITION = c.POSITION
WHERE k.CONSTRAINT_TYPE = 'R' AND k.STATUS = 'ENABLED' AND ${tables}
ORDER BY k.OWNER, k.TABLE_NAME, k.CONSTRAINT_NAME, c.POSITION
