-- The policies that may hide rows of tables from the account.
-- Called by: `check`, on a master.
-- Placeholder: ${tables} the condition on p.OBJECT_OWNER and p.OBJECT_NAME.
-- Parameters: those of ${tables}.
-- Result: owner, table, policy.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT DISTINCT p.OBJECT_OWNER, p.OBJECT_NAME, p.POLICY_NAME
FROM ALL_POLICIES p
WHERE ${tables} AND p.ENABLE = 'YES' AND p.SEL = 'YES'
ORDER BY p.OBJECT_OWNER, p.OBJECT_NAME, p.POLICY_NAME
