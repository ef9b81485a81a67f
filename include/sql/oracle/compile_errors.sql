-- The errors of the server in code of a prefix.
-- Called by: sluice.vendors.oracle.source.resources.
-- Binds: beginning, the prefix.
-- Result: object, line, reason; those of one object in order.
-- Privileges: none.
-- Oldest version: Oracle 12.2.
SELECT e.NAME, e.LINE, e.TEXT FROM USER_ERRORS e
WHERE SUBSTR(e.NAME, 1, LENGTH(:beginning)) = :beginning AND e.ATTRIBUTE = 'ERROR'
ORDER BY e.NAME, e.TYPE, e.SEQUENCE
