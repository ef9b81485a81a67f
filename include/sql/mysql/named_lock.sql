-- A lock of the session, whatever its transactions do. Parameters: name, seconds: how long it waits.
-- Result: 1 where it was given. Privileges: none.
SELECT GET_LOCK(%(name)s, %(seconds)s)
