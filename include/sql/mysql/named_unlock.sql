-- Releases a lock of named_lock.
-- Called by: sluice.vendors.mysql.named_locks.
-- Parameter: name.
-- Result: 1.
-- Privileges: none.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT RELEASE_LOCK(%(name)s)
