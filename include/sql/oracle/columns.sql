-- The columns of tables, not of views, and of hidden ones only those that a user made invisible.
-- Called by: sluice.vendors.oracle.catalog.
-- Placeholder: ${tables} the condition on c.OWNER and c.TABLE_NAME.
-- Parameters: those of ${tables}.
-- Result: owner, table, column, type, bytes, characters, unit of its length (C or B), precision, scale, number, Y if it
--   may be NULL, YES if it is computed, YES for an identity.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT c.OWNER, c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, c.DATA_LENGTH, c.CHAR_LENGTH, c.CHAR_USED, c.DATA_PRECISION,
       c.DATA_SCALE, c.INTERNAL_COLUMN_ID, c.NULLABLE,
       CASE WHEN c.DATA_TYPE = 'XMLTYPE' THEN 'NO' ELSE c.VIRTUAL_COLUMN END, c.IDENTITY_COLUMN
FROM ALL_TAB_COLS c
JOIN ALL_TABLES t ON t.OWNER = c.OWNER AND t.TABLE_NAME = c.TABLE_NAME
WHERE ${tables} AND (c.HIDDEN_COLUMN = 'NO' OR c.USER_GENERATED = 'YES')
ORDER BY c.OWNER, c.TABLE_NAME, c.INTERNAL_COLUMN_ID
