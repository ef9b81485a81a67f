-- Takes the right to load a slave, for the session.
-- Called by: a load job, on the slave.
-- Parameter: key, naming prefix and slave.
-- Result: one boolean.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT pg_try_advisory_lock(hashtextextended(%(key)s, 0))
