-- Returns when a crash of the master cannot undo what a position saw. Commits with synchronous_commit = off and rollbacks
-- are seen before they are on the disk; a crash forgets them, and their transaction IDs and REPL_KEYs are given out again.
-- Called by: the apply before it commits a window, the loader before it stores a block; on a slave, by who relies on its
-- checkpoint. In a transaction of its own.
-- Parameter: lsn, of the position. Result: one row, whatever is in it: where something was missing, a message in the
-- log was written, whose commit takes all that came before it to the disk.
-- Privileges: none. Oldest version: PostgreSQL 13.
SELECT set_config('synchronous_commit', 'local', true),
       CASE WHEN pg_current_wal_flush_lsn() < %(lsn)s::pg_lsn
            THEN pg_logical_emit_message(true, 'sluice', '')
       END
