-- Who holds a lock of named_lock. Parameter: name. Result: one row of the session's number, or NULL. Privileges: none.
SELECT IS_USED_LOCK(%(name)s)
