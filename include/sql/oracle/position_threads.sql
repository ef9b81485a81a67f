-- The open redo threads, and the run of the instance that writes each; no instance: it ended, and its thread is not recovered.
-- Called by: sluice.vendors.oracle.source.server.Server.threads. Binds: none. Result: thread, run or NULL.
-- Privileges: SELECT on SYS.V_$THREAD, SYS.GV_$INSTANCE. Oldest version: Oracle 12.2.
SELECT t.THREAD#, NVL2(i.INST_ID, i.INST_ID || ' ' || TO_CHAR(i.STARTUP_TIME, 'YYYYMMDDHH24MISS'), NULL)
FROM V$THREAD t
LEFT JOIN GV$INSTANCE i ON i.THREAD# = t.THREAD# AND i.STATUS = 'OPEN'
WHERE t.STATUS = 'OPEN'
