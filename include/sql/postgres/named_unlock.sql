-- Releases a lock of named_lock.
-- Called by: an apply after DDL; a load job that ends.
-- Parameter: name.
-- Result: one boolean.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT pg_catalog.pg_advisory_unlock(hashtextextended(%(name)s, 0))
