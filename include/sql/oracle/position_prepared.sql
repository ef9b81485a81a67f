-- The distributed transactions that are prepared here and not decided.
-- Called by: sluice.vendors.oracle.source.server.Server.prepared. Binds: none. Result: IDs as TRANS_KEY has them.
-- Privileges: SELECT on SYS.DBA_2PC_PENDING. Oldest version: Oracle 12.2.
SELECT p.LOCAL_TRAN_ID FROM DBA_2PC_PENDING p
WHERE p.STATE NOT IN ('committed', 'forced commit', 'forced rollback')
