-- The history file of a timeline: its former timelines, and where each ended.
-- Called by: sluice.vendors.postgres.source.queue, if the account may.
-- Parameter: file, below the server's data directory.
-- Result: one row: the text, NULL if there is no such file.
-- Privileges: EXECUTE on pg_read_file.
-- Oldest version: PostgreSQL 13.
SELECT pg_catalog.pg_read_file(%(file)s, 0, 1000000, true)
