-- Serialises the claims of a slave, so that limits on blocks that are read at the same time hold. Runs in the
-- transaction of a claim, before it reads BLOCKS.
-- Called by: a loader, if there are such limits.
-- Parameter: claims.
-- Result: none.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT pg_advisory_xact_lock(hashtextextended('sluice load limits ' || %(claims)s, 0))
