-- Takes a lock for the session, independent of its transactions.
-- Called by: sluice.vendors.mysql.named_locks.
-- Parameters: name; seconds, how long to wait.
-- Result: 1 if it was taken, 0 if the wait timed out.
-- Privileges: none.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT GET_LOCK(%(name)s, %(seconds)s)
