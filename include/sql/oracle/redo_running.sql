-- The running transactions of all instances with their sessions, for a person who must end one. A transaction without a
-- session is prepared, or has lost its session.
-- Called by: sluice.vendors.oracle.source.server.Server.owners.
-- Binds: none.
-- Result: ID in the form of TRANS_KEY, start by the master's clock, instance, session and serial number, account, program.
-- Privileges: SELECT on SYS.GV_$TRANSACTION, SYS.GV_$SESSION.
-- Oldest version: Oracle 12.2.
SELECT t.XIDUSN || '.' || t.XIDSLOT || '.' || t.XIDSQN AS XID, TO_CHAR(t.START_DATE, 'YYYY-MM-DD HH24:MI:SS') AS SINCE,
       t.INST_ID, s.SID, s.SERIAL#, s.USERNAME, s.PROGRAM
FROM GV$TRANSACTION t
LEFT JOIN GV$SESSION s ON s.INST_ID = t.INST_ID AND s.SADDR = t.SES_ADDR
