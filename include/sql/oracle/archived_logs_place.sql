-- The incarnation of the master, and which part of its fast recovery area is in use.
-- Called by: sluice.vendors.oracle.source.archived_logs.
-- Binds: none.
-- Result: resetlogs, part from 0 to 1 (0 without such an area).
-- Privileges: SELECT on SYS.V_$DATABASE_INCARNATION, SYS.V_$RECOVERY_FILE_DEST.
-- Oldest version: Oracle 12.2.
SELECT
    i.RESETLOGS_ID,
    NVL((SELECT SUM(a.SPACE_USED) / NULLIF(SUM(a.SPACE_LIMIT), 0) FROM V$RECOVERY_FILE_DEST a), 0)
FROM V$DATABASE_INCARNATION i
WHERE i.STATUS = 'CURRENT'
