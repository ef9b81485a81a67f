-- Locks by name. Each statement is a section with its name.
-- Privileges: none.
-- Oldest version: MariaDB 10.6, MySQL 8.0.

-- name: named_lock
-- Takes a lock for the session, independent of its transactions.
-- Called by: sluice.vendors.mysql.sessions.
-- Parameters: name; seconds, how long to wait.
-- Result: 1 if it was taken, 0 if the wait timed out.
SELECT GET_LOCK(%(name)s, %(seconds)s)

-- name: named_lock_holder
-- Which session holds a lock of named_lock.
-- Called by: sluice.vendors.mysql.sessions. Parameter: name.
-- Result: one row: the number of the session, or NULL.
SELECT IS_USED_LOCK(%(name)s)

-- name: named_unlock
-- Releases a lock of named_lock.
-- Called by: sluice.vendors.mysql.sessions. Parameter: name.
-- Result: 1.
SELECT RELEASE_LOCK(%(name)s)
