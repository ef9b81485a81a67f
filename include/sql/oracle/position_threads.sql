-- The open redo threads, and which start of an instance writes each. A thread without an instance is not recovered yet.
-- Called by: sluice.vendors.oracle.source.server.Server.threads.
-- Binds: none.
-- Result: thread, instance with the time of its start, or NULL.
-- Privileges: SELECT on SYS.V_$THREAD, SYS.GV_$INSTANCE.
-- Oldest version: Oracle 12.2.
SELECT t.THREAD#, NVL2(i.INST_ID, i.INST_ID || ' ' || TO_CHAR(i.STARTUP_TIME, 'YYYYMMDDHH24MISS'), NULL)
FROM V$THREAD t
LEFT JOIN GV$INSTANCE i ON i.THREAD# = t.THREAD# AND i.STATUS = 'OPEN'
WHERE t.STATUS = 'OPEN'
