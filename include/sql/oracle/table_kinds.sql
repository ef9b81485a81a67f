-- The tables whose rows triggers cannot capture: temporary and external ones.
-- Called by: sluice.vendors.oracle.catalog.kinds.
-- Placeholder: ${tables} the condition on t.OWNER and t.TABLE_NAME.
-- Parameters: those of ${tables}.
-- Result: owner, table, its kind as a text.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT t.OWNER, t.TABLE_NAME, CASE WHEN t.TEMPORARY = 'Y' THEN 'a temporary table' ELSE 'an external table' END
FROM ALL_TABLES t
WHERE ${tables} AND (t.TEMPORARY = 'Y' OR t.EXTERNAL = 'YES')
