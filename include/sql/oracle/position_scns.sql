-- The current SCN of each instance.
-- Called by: sluice.vendors.oracle.source.server.Server.scns.
-- Binds: none.
-- Result: instance, SCN.
-- Privileges: SELECT on SYS.GV_$DATABASE.
-- Oldest version: Oracle 12.2.
SELECT d.INST_ID, d.CURRENT_SCN FROM GV$DATABASE d
