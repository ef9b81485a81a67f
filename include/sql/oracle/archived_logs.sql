-- The copies of archived redo logs, of all threads and incarnations; the name of a deleted copy is NULL.
-- Called by: sluice.vendors.oracle.source.archived_logs.
-- Binds: none.
-- Result: resetlogs, thread, sequence, first SCN, next SCN, name, 1 in the fast recovery area or 0, backups.
-- Privileges: SELECT on SYS.V_$ARCHIVED_LOG, in the root of a container database.
-- Oldest version: Oracle 12.2.
-- IS_RECOVERY_DEST_FILE is a column of the result and no condition: copies outside of the fast recovery area count, too.
SELECT
    l.RESETLOGS_ID,
    l.THREAD#,
    l.SEQUENCE#,
    l.FIRST_CHANGE#,
    l.NEXT_CHANGE#,
    CASE WHEN l.STATUS = 'A' THEN l.NAME END,
    CASE WHEN l.IS_RECOVERY_DEST_FILE = 'YES' THEN 1 ELSE 0 END,
    NVL(l.BACKUP_COUNT, 0)
FROM V$ARCHIVED_LOG l
WHERE l.STANDBY_DEST = 'NO'
ORDER BY l.RESETLOGS_ID, l.THREAD#, l.SEQUENCE#, l.DEST_ID
