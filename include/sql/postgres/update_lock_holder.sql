-- Who has the right to load a slave.
-- Called by: a load job that could not take it.
-- Parameter: key.
-- Result: one text, or no row.
-- Privileges: none; others' addresses show to members of pg_read_all_stats.
SELECT format('session %%s of %%s from %%s since %%s', l.pid, coalesce(a.usename, '?'), coalesce(host(a.client_addr), '?'),
              coalesce(to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'), '?'))
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32) | l.objid::bigint = hashtextextended(%(key)s, 0)
