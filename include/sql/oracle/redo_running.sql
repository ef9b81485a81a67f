-- Who runs transactions on any instance, for people who must end one; no session: it is prepared, or belongs to none.
-- Called by: sluice.vendors.oracle.source.server.Server.owners. Binds: none.
-- Result: ID as TRANS_KEY has it, since when by the master's clock, instance, session and serial number, account, program.
-- Privileges: SELECT on SYS.GV_$TRANSACTION, SYS.GV_$SESSION. Oldest version: Oracle 12.2.
SELECT t.XIDUSN || '.' || t.XIDSLOT || '.' || t.XIDSQN AS XID, TO_CHAR(t.START_DATE, 'YYYY-MM-DD HH24:MI:SS') AS SINCE,
       t.INST_ID, s.SID, s.SERIAL#, s.USERNAME, s.PROGRAM
FROM GV$TRANSACTION t
LEFT JOIN GV$SESSION s ON s.INST_ID = t.INST_ID AND s.SADDR = t.SES_ADDR
