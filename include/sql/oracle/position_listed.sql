-- The transactions that run on any instance, of whatever session or none.
-- Called by: sluice.vendors.oracle.source.server.Server.listed. Binds: none. Result: IDs as TRANS_KEY has them.
-- Privileges: SELECT on SYS.GV_$TRANSACTION. Oldest version: Oracle 12.2.
SELECT t.XIDUSN || '.' || t.XIDSLOT || '.' || t.XIDSQN FROM GV$TRANSACTION t
