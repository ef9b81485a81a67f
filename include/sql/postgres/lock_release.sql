-- Gives a number of lock_session back.
-- Called by: sluice.vendors.postgres.session_locks.
-- Parameters: name; number integer.
-- Result: one boolean.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext('sluice ' || %(name)s), %(number)s::integer)
