-- The incarnation of the master, and the part of its fast recovery area that is in use: 0 where there is none.
-- Called by: sluice.vendors.oracle.source.archived_logs. Binds: none. Result: resetlogs, part from 0 to 1.
-- Privileges: SELECT on SYS.V_$DATABASE_INCARNATION, SYS.V_$RECOVERY_FILE_DEST. Oldest version: Oracle 12.2.
SELECT
    i.RESETLOGS_ID,
    NVL((SELECT SUM(a.SPACE_USED) / NULLIF(SUM(a.SPACE_LIMIT), 0) FROM V$RECOVERY_FILE_DEST a), 0)
FROM V$DATABASE_INCARNATION i
WHERE i.STATUS = 'CURRENT'
