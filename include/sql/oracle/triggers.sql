-- The enabled triggers of tables, without those that capture, which do nothing for an apply.
-- Called by: the preparation of a slave, and its apply.
-- Placeholder: ${tables} the condition on t.TABLE_OWNER and t.TABLE_NAME.
-- Parameters: those of ${tables}.
-- Result: owner, table, trigger.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT t.TABLE_OWNER, t.TABLE_NAME, t.TRIGGER_NAME
FROM ALL_TRIGGERS t
WHERE ${tables} AND t.STATUS = 'ENABLED' AND NOT EXISTS (
    SELECT 1 FROM ALL_SOURCE s
    WHERE s.OWNER = t.OWNER AND s.NAME = t.TRIGGER_NAME AND s.TYPE = 'TRIGGER' AND INSTR(s.TEXT, 'CODE.PUT_ITEM') > 0)
