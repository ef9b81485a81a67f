-- Which session holds a lock of named_lock.
-- Called by: sluice.vendors.mysql.named_locks.
-- Parameter: name.
-- Result: one row: the number of the session, or NULL.
-- Privileges: none.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT IS_USED_LOCK(%(name)s)
