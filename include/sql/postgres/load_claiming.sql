-- Begins a claim: whether the loader's job lives. Called by: a loader, in the transaction that claims a block.
-- Parameters: claims, naming prefix and slave; job. Result: one boolean. Privileges: none. Oldest version: PostgreSQL 13.
-- The first lock is shared by all claims; a job that wants to be sure that none is under way takes it alone. The second
-- is held by a job that lives, so that it cannot be had.
SELECT NOT pg_try_advisory_xact_lock_shared(hashtextextended('sluice load job ' || %(job)s, 0))
FROM (SELECT pg_advisory_xact_lock_shared(hashtextextended('sluice load claims ' || %(claims)s, 0)) OFFSET 0) AS first
