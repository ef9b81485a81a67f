-- The transactions that have ended by now: a cheap look whether any did since a position was taken.
-- Called by: the apply, between its turns. Placeholders: none. Result: one row: snapshot text.
-- Privileges: none. Oldest version: PostgreSQL 13.
SELECT pg_catalog.pg_current_snapshot()::text
