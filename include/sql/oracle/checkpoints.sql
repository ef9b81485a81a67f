-- The CHECKPOINT tables of a schema, of any prefix: their names end so, and they have all the columns.
-- Called by: a comparison, on the slave.
-- Binds: owner.
-- Result: their names, ordered.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT c.TABLE_NAME FROM ALL_TAB_COLUMNS c
WHERE c.OWNER = :owner AND c.TABLE_NAME LIKE '%CHECKPOINT'
  AND c.COLUMN_NAME IN ('SLAVE', 'EPOCH', 'POSITION', 'TARGET', 'SLICE_KEY', 'CHANGES', 'TABLES')
GROUP BY c.TABLE_NAME HAVING COUNT(*) = 7 ORDER BY c.TABLE_NAME
