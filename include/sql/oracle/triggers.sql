-- The triggers of tables that fire. Called by: what prepares a slave, and its apply. Placeholder: ${tables} the condition on
-- t.TABLE_OWNER and t.TABLE_NAME. Parameters: those of ${tables}. Result: owner, table, trigger.
-- Privileges: any on the tables. Oldest version: Oracle 12.2.
SELECT t.TABLE_OWNER, t.TABLE_NAME, t.TRIGGER_NAME FROM ALL_TRIGGERS t WHERE ${tables} AND t.STATUS = 'ENABLED'
