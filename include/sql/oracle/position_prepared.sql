-- The distributed transactions that are prepared, and neither committed nor rolled back.
-- Called by: sluice.vendors.oracle.source.server.Server.prepared.
-- Binds: none.
-- Result: IDs in the form of TRANS_KEY.
-- Privileges: SELECT on SYS.DBA_2PC_PENDING.
-- Oldest version: Oracle 12.2.
SELECT p.LOCAL_TRAN_ID FROM DBA_2PC_PENDING p
WHERE p.STATE NOT IN ('committed', 'forced commit', 'forced rollback')
