-- Takes a lock for the session, independent of its transactions.
-- Called by: an apply around DDL; a load job as long as its loaders may claim blocks.
-- Parameter: name.
-- Result: none.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT pg_catalog.pg_advisory_lock(hashtextextended(%(name)s, 0))
