-- The tables CHECKPOINT of a schema: of those with such a name the ones with its columns. Another one may be anybody's.
-- Called by: a comparison, on the slave. Binds: :owner. Result: their names, in order.
-- Privileges: any on the tables. Oldest version: Oracle 12.2.
SELECT c.TABLE_NAME FROM ALL_TAB_COLUMNS c
WHERE c.OWNER = :owner AND c.TABLE_NAME LIKE '%CHECKPOINT'
  AND c.COLUMN_NAME IN ('SLAVE', 'EPOCH', 'POSITION', 'TARGET', 'SLICE_KEY', 'CHANGES', 'TABLES')
GROUP BY c.TABLE_NAME HAVING COUNT(*) = 7 ORDER BY c.TABLE_NAME
