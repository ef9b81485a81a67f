-- Archived redo logs. Each statement is a section with its name.
-- Called by: sluice.vendors.oracle.source.archived_logs.

-- name: archived_logs
-- The copies of archived redo logs, of all threads and incarnations; the name of a deleted copy is NULL.
-- Binds: none.
-- Result: resetlogs, thread, sequence, first SCN, next SCN, name, 1 in the fast recovery area or 0, backups.
-- Privileges: SELECT on SYS.V_$ARCHIVED_LOG, in the root of a container database.
-- Oldest version: Oracle 12.2. IS_RECOVERY_DEST_FILE is a column of the result and no condition: copies outside of the
--   fast recovery area count, too.
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

-- name: archived_logs_place
-- The incarnation of the master, and which part of its fast recovery area is in use.
-- Binds: none.
-- Result: resetlogs, part from 0 to 1 (0 without such an area).
-- Privileges: SELECT on SYS.V_$DATABASE_INCARNATION, SYS.V_$RECOVERY_FILE_DEST.
-- Oldest version: Oracle 12.2.
SELECT
    i.RESETLOGS_ID,
    NVL((SELECT SUM(a.SPACE_USED) / NULLIF(SUM(a.SPACE_LIMIT), 0) FROM V$RECOVERY_FILE_DEST a), 0)
FROM V$DATABASE_INCARNATION i
WHERE i.STATUS = 'CURRENT'
