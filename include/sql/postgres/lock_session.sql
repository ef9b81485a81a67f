-- Takes one number of a name for the session, if nobody has just this one.
-- Called by: sluice.vendors.postgres.session_locks.
-- Parameters: name; number integer, drawn at random.
-- Result: one boolean.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('sluice ' || %(name)s), %(number)s::integer)
