-- Returns when a crash of a slave cannot undo its checkpoint. Commits with synchronous_commit = off are visible before
-- they are on disk.
-- Called by: the purge and a failover, which rely on the checkpoint. In a transaction of its own.
-- Parameter: lsn, up to which the log must be on disk.
-- Result: one row of no meaning: if something was not on disk, a message was written to the log, whose commit forces
--   all earlier records to disk.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT set_config('synchronous_commit', 'local', true),
       CASE WHEN pg_current_wal_flush_lsn() < %(lsn)s::pg_lsn
            THEN pg_logical_emit_message(true, 'sluice', '')
       END
