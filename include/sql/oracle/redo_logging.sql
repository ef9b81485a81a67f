-- Whether the redo log has all changes, also those of what asks for NOLOGGING: YES, or something else.
-- Called by: sluice.vendors.oracle.source.lacks_master. Binds: none. Result: FORCE_LOGGING.
-- Privileges: SELECT on SYS.V_$DATABASE. Oldest version: Oracle 12.2.
SELECT d.FORCE_LOGGING FROM V$DATABASE d
