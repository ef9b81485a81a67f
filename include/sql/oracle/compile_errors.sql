-- What the server refuses in code of a prefix. Called by: sluice.vendors.oracle.source.resources. Binds: :beginning, the prefix.
-- Result: object, line, reason, the first of each object first. Privileges: none. Oldest version: Oracle 12.2.
SELECT e.NAME, e.LINE, e.TEXT FROM USER_ERRORS e
WHERE SUBSTR(e.NAME, 1, LENGTH(:beginning)) = :beginning AND e.ATTRIBUTE = 'ERROR'
ORDER BY e.NAME, e.TYPE, e.SEQUENCE
