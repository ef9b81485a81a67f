-- The transactions that are older than a wait for a lock that has just timed out: one of them may hold the lock.
-- Called by: a session whose wait timed out.
-- Parameters: none.
-- Result: number of the session, user, host, start (UTC); at most three rows.
-- Privileges: PROCESS.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT t.trx_mysql_thread_id, COALESCE(p.user, '?'), COALESCE(p.host, '?'), CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00')
FROM information_schema.innodb_trx t
LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
WHERE t.trx_mysql_thread_id <> CONNECTION_ID()
  AND CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00')
      <= UTC_TIMESTAMP() - INTERVAL LEAST(@@innodb_lock_wait_timeout, @@lock_wait_timeout) - 1 SECOND
ORDER BY t.trx_started
LIMIT 3
