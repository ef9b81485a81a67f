-- The transactions that run on any instance, of whatever session or none, and the SCN with which each began.
-- Called by: sluice.vendors.oracle.source.server.Server.listed. Binds: none. Result: ID as TRANS_KEY has it, SCN.
-- Privileges: SELECT on SYS.GV_$TRANSACTION. Oldest version: Oracle 12.2.
SELECT t.XIDUSN || '.' || t.XIDSLOT || '.' || t.XIDSQN, t.START_SCN FROM GV$TRANSACTION t
