-- A load job lives: its loaders may claim blocks as long as this session holds the lock. Called by: a load job.
-- Parameter: job. Result: none. Privileges: none. Oldest version: PostgreSQL 13.
SELECT pg_advisory_lock(hashtextextended('sluice load job ' || %(job)s, 0))
