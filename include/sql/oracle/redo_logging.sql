-- Whether the redo log has all changes, also those of operations with NOLOGGING.
-- Called by: sluice.vendors.oracle.source.preflight_master.
-- Binds: none.
-- Result: FORCE_LOGGING: YES, or another text.
-- Privileges: SELECT on SYS.V_$DATABASE.
-- Oldest version: Oracle 12.2.
SELECT d.FORCE_LOGGING FROM V$DATABASE d
