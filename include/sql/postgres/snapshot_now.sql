-- The snapshot of the server: which transactions have ended. A cheap test whether there is anything to read.
-- Called by: the apply, between its turns.
-- Placeholders: none.
-- Result: one row: snapshot text.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT pg_catalog.pg_current_snapshot()::text
