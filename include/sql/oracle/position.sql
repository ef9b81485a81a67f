-- Positions of a master. Each statement is a section with its name.
-- Oldest version: Oracle 12.2.

-- name: position_draw
-- Draws a REPL_KEY, for the ends of a position.
-- Called by: sluice.vendors.oracle.source.server.Server.draw.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: none.
-- Result: one number.
-- Privileges: owner of the sequence.
SELECT ${prefix}SEQ.NEXTVAL FROM DUAL

-- name: position_incarnation
-- The identity of the database and of its incarnation, its role, and its clock.
-- Called by: sluice.vendors.oracle.source.server.Server.incarnation and time.
-- Binds: none.
-- Result: DBID, GUID of the pluggable database, RESETLOGS_ID, PDB_INCARNATION#, role, open mode, time in UTC.
-- Privileges: SELECT on SYS.V_$DATABASE, V_$DATABASE_INCARNATION, V_$PDBS, V_$PDB_INCARNATION.
SELECT d.DBID,
       (SELECT RAWTOHEX(p.GUID) FROM V$PDBS p WHERE p.CON_ID = SYS_CONTEXT('USERENV', 'CON_ID')) AS PDB,
       (SELECT i.RESETLOGS_ID FROM V$DATABASE_INCARNATION i WHERE i.STATUS = 'CURRENT') AS RESETLOGS,
       (SELECT MAX(c.PDB_INCARNATION#) FROM V$PDB_INCARNATION c
        WHERE c.STATUS = 'CURRENT' AND c.CON_ID = SYS_CONTEXT('USERENV', 'CON_ID')) AS PDB_INCARNATION,
       d.DATABASE_ROLE, d.OPEN_MODE,
       TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'YYYY-MM-DD"T"HH24:MI:SS.FF6"Z"') AS TIME
FROM V$DATABASE d

-- name: position_listed
-- The running transactions of all instances, also those without a session, with the SCN at which each began.
-- Called by: sluice.vendors.oracle.source.server.Server.listed.
-- Binds: none.
-- Result: ID in the form of TRANS_KEY, SCN.
-- Privileges: SELECT on SYS.GV_$TRANSACTION.
SELECT t.XIDUSN || '.' || t.XIDSLOT || '.' || t.XIDSQN, t.START_SCN FROM GV$TRANSACTION t

-- name: position_prepared
-- The distributed transactions that are prepared, and neither committed nor rolled back.
-- Called by: sluice.vendors.oracle.source.server.Server.prepared.
-- Binds: none.
-- Result: IDs in the form of TRANS_KEY.
-- Privileges: SELECT on SYS.DBA_2PC_PENDING.
SELECT p.LOCAL_TRAN_ID FROM DBA_2PC_PENDING p
WHERE p.STATE NOT IN ('committed', 'forced commit', 'forced rollback')

-- name: position_scns
-- The current SCN of each instance.
-- Called by: sluice.vendors.oracle.source.server.Server.scns.
-- Binds: none.
-- Result: instance, SCN.
-- Privileges: SELECT on SYS.GV_$DATABASE.
SELECT d.INST_ID, d.CURRENT_SCN FROM GV$DATABASE d

-- name: position_secure
-- Writes a row without changing it. The caller commits with COMMIT WRITE IMMEDIATE WAIT; then everything that was visible
--   before is on disk.
-- Called by: sluice.vendors.oracle.source.queue, before the changes of a position become visible on a slave.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: none.
-- Result: none.
-- Privileges: owner of the tables.
UPDATE ${prefix}INFO SET VALUE = VALUE WHERE NAME = 'version'

-- name: position_threads
-- The open redo threads, and which start of an instance writes each. A thread without an instance is not recovered yet.
-- Called by: sluice.vendors.oracle.source.server.Server.threads.
-- Binds: none.
-- Result: thread, instance with the time of its start, or NULL.
-- Privileges: SELECT on SYS.V_$THREAD, SYS.GV_$INSTANCE.
SELECT t.THREAD#, NVL2(i.INST_ID, i.INST_ID || ' ' || TO_CHAR(i.STARTUP_TIME, 'YYYYMMDDHH24MISS'), NULL)
FROM V$THREAD t
LEFT JOIN GV$INSTANCE i ON i.THREAD# = t.THREAD# AND i.STATUS = 'OPEN'
WHERE t.STATUS = 'OPEN'

-- name: position_visible
-- The transactions with a change in ITEMS as of an SCN: those with a key in a range, and those of a list with any key.
-- Called by: sluice.vendors.oracle.source.server.Server.visible.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: scn; above (exclusive), up_to (inclusive); among, the list as a JSON array.
-- Result: IDs.
-- Privileges: owner of the tables.
SELECT i.TRANS_KEY FROM ${prefix}ITEMS AS OF SCN :scn i
WHERE i.REPL_KEY > :above AND i.REPL_KEY <= :up_to
UNION
SELECT i.TRANS_KEY FROM ${prefix}ITEMS AS OF SCN :scn i
JOIN JSON_TABLE(:among, '$[*]' COLUMNS (TRANS_KEY VARCHAR2(30) PATH '$')) a ON a.TRANS_KEY = i.TRANS_KEY
