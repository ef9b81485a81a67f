-- How busy a master's server is.
-- Called by: the throttle of a load job, once a second.
-- Parameters: none.
-- Result, one row: whether this account sees what other accounts do; sessions that execute a statement; sessions that
--   wait for a lock (neither counts Sluice's own); the end of the WAL in bytes; how far each standby has replayed it,
--   in bytes; the greatest lag that the server itself measured, seconds; the server's clock.
-- Privileges: pg_read_all_stats (or pg_monitor) to see other accounts.
-- Oldest version: PostgreSQL 13.
SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       (SELECT count(*) FROM pg_catalog.pg_stat_activity a
        WHERE a.backend_type = 'client backend' AND a.state IN ('active', 'fastpath function call')
          AND a.pid <> pg_catalog.pg_backend_pid() AND NOT starts_with(a.application_name, 'sluice ')),
       (SELECT count(DISTINCT l.pid) FROM pg_catalog.pg_locks l
        LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
        WHERE NOT l.granted AND NOT starts_with(coalesce(a.application_name, ''), 'sluice ')),
       pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint,
       ARRAY(SELECT pg_catalog.pg_wal_lsn_diff(r.replay_lsn, '0/0')::bigint
             FROM pg_catalog.pg_stat_replication r WHERE r.replay_lsn IS NOT NULL),
       coalesce((SELECT extract(epoch FROM max(r.replay_lag)) FROM pg_catalog.pg_stat_replication r), 0)::float8,
       clock_timestamp()
