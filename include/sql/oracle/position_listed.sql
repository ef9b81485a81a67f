-- The running transactions of all instances, also those without a session, with the SCN at which each began.
-- Called by: sluice.vendors.oracle.source.server.Server.listed.
-- Binds: none.
-- Result: ID in the form of TRANS_KEY, SCN.
-- Privileges: SELECT on SYS.GV_$TRANSACTION.
-- Oldest version: Oracle 12.2.
SELECT t.XIDUSN || '.' || t.XIDSLOT || '.' || t.XIDSQN, t.START_SCN FROM GV$TRANSACTION t
