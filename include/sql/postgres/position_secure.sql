-- Returns when a crash of the master cannot undo what a position has seen. Commits with synchronous_commit = off and
-- rollbacks are visible before they are on disk; after a crash their transaction IDs and REPL_KEYs are used again.
-- Called by: the apply before it commits a window, the loader before it stores a block; on a slave, by the purge and
--   a failover, which rely on its checkpoint. In a transaction of its own.
-- Parameter: lsn, of the position.
-- Result: one row of no meaning: if something was not on disk, a message was written to the log, whose commit forces
--   all earlier records to disk.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT set_config('synchronous_commit', 'local', true),
       CASE WHEN pg_current_wal_flush_lsn() < %(lsn)s::pg_lsn
            THEN pg_logical_emit_message(true, 'sluice', '')
       END
