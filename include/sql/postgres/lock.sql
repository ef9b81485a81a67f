-- Locks of sessions. Each statement is a section with its name.
-- Oldest version: PostgreSQL 13.

-- name: lock_marks
-- The numbers of a name that sessions have which may hold the lock: those of this account, of its members and of
--   superusers. Anybody else's are ignored: anybody may take any advisory lock.
-- Called by: sluice.vendors.postgres.sessions.
-- Parameters: name; own boolean: those of this session, or those of others.
-- Result: number, the session for a message.
-- Privileges: none; others' addresses show to members of pg_read_all_stats.
SELECT l.objid::bigint - CASE WHEN l.objid::bigint > 2147483647 THEN 4294967296 ELSE 0 END,
       format('session %%s of %%s from %%s since %%s', l.pid, a.usename, coalesce(host(a.client_addr), '?'),
              coalesce(to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'), '?'))
FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
  AND l.classid::bigint = CASE WHEN pg_catalog.hashtext('sluice ' || %(name)s) < 0 THEN 4294967296 ELSE 0 END
                          + pg_catalog.hashtext('sluice ' || %(name)s)
  AND (l.pid = pg_catalog.pg_backend_pid()) = %(own)s
  AND pg_catalog.pg_has_role(a.usesysid, (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = session_user), 'MEMBER')

-- name: lock_release
-- Gives a number of lock_session back.
-- Called by: sluice.vendors.postgres.sessions.
-- Parameters: name; number integer.
-- Result: one boolean.
-- Privileges: none.
SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext('sluice ' || %(name)s), %(number)s::integer)

-- name: lock_session
-- Takes one number of a name for the session, if nobody has just this one.
-- Called by: sluice.vendors.postgres.sessions.
-- Parameters: name; number integer, drawn at random.
-- Result: one boolean.
-- Privileges: none.
SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('sluice ' || %(name)s), %(number)s::integer)

-- name: lock_transaction
-- The same until the transaction, or the savepoint, ends.
-- Called by: sluice.vendors.postgres.sessions.
-- Parameters: name; number integer, drawn at random.
-- Result: one boolean.
-- Privileges: none.
SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext('sluice ' || %(name)s), %(number)s::integer)

-- name: lock_waiters
-- Counts the sessions that wait for locks which some sessions hold.
-- Called by: holders of a snapshot, which end it if others wait.
-- Placeholders: ${pids} of the holders, with commas.
-- Result: one number.
-- Privileges: none.
SELECT count(DISTINCT l.pid) FROM pg_locks l WHERE NOT l.granted AND pg_blocking_pids(l.pid) && '{${pids}}'::int[]
