-- The indexes of tables, one row a column.
-- Called by: sluice.vendors.oracle.catalog.
-- Placeholder: ${tables} the condition on c.TABLE_OWNER and c.TABLE_NAME.
-- Parameters: those of ${tables}.
-- Result: owner, table, index, UNIQUE or NONUNIQUE, type (NORMAL, NORMAL/REV or IOT - TOP if it has columns only), column,
--   P for the index of the primary key.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT c.TABLE_OWNER, c.TABLE_NAME, c.INDEX_NAME, i.UNIQUENESS, i.INDEX_TYPE, c.COLUMN_NAME, k.CONSTRAINT_TYPE
FROM ALL_IND_COLUMNS c
JOIN ALL_INDEXES i ON i.OWNER = c.INDEX_OWNER AND i.INDEX_NAME = c.INDEX_NAME
LEFT JOIN ALL_CONSTRAINTS k ON k.OWNER = c.TABLE_OWNER AND k.TABLE_NAME = c.TABLE_NAME AND k.CONSTRAINT_TYPE = 'P'
    AND k.INDEX_NAME = c.INDEX_NAME
WHERE ${tables}
ORDER BY c.TABLE_OWNER, c.TABLE_NAME, c.INDEX_NAME, c.COLUMN_POSITION
