-- In the transaction of a claim, before it looks at BLOCKS: claims of this slave come one after another, so that limits
-- on what is read at the same time hold. Called by: a loader where there are such limits. Parameter: claims.
-- Result: none. Privileges: none. Oldest version: PostgreSQL 13.
SELECT pg_advisory_xact_lock(hashtextextended('sluice load limits ' || %(claims)s, 0))
