-- Estimates the size of tables without reading them.
-- Called by: a load, a comparison.
-- Placeholder: ${tables} the condition on t.OWNER and t.TABLE_NAME.
-- Parameters: those of ${tables}.
-- Result: owner, table, rows (NULL when never analysed), bytes.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT t.OWNER, t.TABLE_NAME, t.NUM_ROWS, NVL(t.NUM_ROWS * t.AVG_ROW_LEN, 0) FROM ALL_TABLES t WHERE ${tables}
