-- Begins a claim, and tests whether the loader's job is alive.
-- Called by: a loader, in the transaction that claims a block.
-- Parameters: claims, naming prefix and slave; job.
-- Result: one boolean.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
-- The first lock is shared by all claims; a job that must exclude claims takes it exclusively. The second lock is held
-- by a live job, so that it cannot be taken.
SELECT NOT pg_try_advisory_xact_lock_shared(hashtextextended('sluice load job ' || %(job)s, 0))
FROM (SELECT pg_advisory_xact_lock_shared(hashtextextended('sluice load claims ' || %(claims)s, 0)) OFFSET 0) AS first
