-- The end of a lock taken by named_lock. Parameter: name. Result: 1. Privileges: none.
SELECT RELEASE_LOCK(%(name)s)
