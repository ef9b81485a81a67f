-- The tables of the account's schema with a foreign key that deletes rows, or sets columns NULL, when a referred row is
-- deleted.
-- Called by: an apply.
-- Parameters: none.
-- Result: table.
-- Privileges: none.
-- Oldest version: Oracle 12.2.
SELECT DISTINCT k.TABLE_NAME FROM ALL_CONSTRAINTS k
WHERE k.OWNER = SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') AND k.CONSTRAINT_TYPE = 'R' AND k.STATUS = 'ENABLED'
  AND k.DELETE_RULE IN ('CASCADE', 'SET NULL')
