-- Reads what a database knows of changes of the master, from the rows of all its slaves.
-- Called by: sluice.failover and the monitor.
-- Placeholders: ${prefix}, ${schema}.
-- Result: a JSON array a row.
-- Privileges: SELECT.
-- Oldest version: PostgreSQL 13.
-- A table of an earlier release lacks the column until something is stored.
SELECT coalesce(pg_catalog.to_jsonb(f) -> 'switches', '[]') FROM ${schema}.${prefix}failover f
