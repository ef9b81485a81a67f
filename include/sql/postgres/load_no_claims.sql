-- Waits until no claim is in progress, and blocks new ones until the transaction ends.
-- Called by: a load job, before it puts the blocks of dead loaders back to planned.
-- Parameter: claims.
-- Result: none.
-- Privileges: none.
SELECT pg_advisory_xact_lock(hashtextextended('sluice load claims ' || %(claims)s, 0))
