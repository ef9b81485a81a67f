-- THROTTLE. Each statement is a section with its name.

-- name: throttle_read
-- Reads the throttle of a slave's load.
-- Called by: a worker before each block, progress.
-- Placeholders: ${prefix}, ${schema}, ${clock}. Parameter: slave.
-- Result: paused, reason, rows_per_second, bytes_per_second, loaders, ahead_seconds; or no row.
-- Privileges: SELECT on THROTTLE and BLOCKS.
-- Oldest version: MariaDB 10.6, MySQL 8.0. AHEAD_SECONDS is the level of a leaky bucket: each block adds to it when it is
--   stored or exported, and it empties at the rate. It is the maximum, over all times, of what came since that time minus
--   what the rate allows since then.
SELECT t.paused, t.reason, t.rows_per_second, t.bytes_per_second, t.loaders,
       CASE WHEN t.rows_per_second IS NULL AND t.bytes_per_second IS NULL THEN 0e0
            ELSE COALESCE((
                SELECT MAX(GREATEST(COALESCE(filled.sum_rows / t.rows_per_second, 0e0),
                                    COALESCE(filled.sum_bytes / t.bytes_per_second, 0e0)) - filled.age)
                FROM (SELECT b.slave, b.stored_at,
                             SUM(b."rows") OVER later AS sum_rows, SUM(b.bytes) OVER later AS sum_bytes,
                             TIMESTAMPDIFF(MICROSECOND, b.stored_at, ${clock}) / 1e6 AS age
                      FROM ${schema}.${prefix}blocks b
                      JOIN ${schema}.${prefix}throttle w ON w.slave = b.slave AND b.stored_at > w.since
                      WHERE b.slave = %(slave)s
                      WINDOW later AS (ORDER BY b.stored_at DESC ROWS UNBOUNDED PRECEDING)) AS filled), 0e0)
       END
FROM ${schema}.${prefix}throttle t
WHERE t.slave = %(slave)s

-- name: throttle_write
-- Writes the throttle of a slave's load.
-- Called by: the throttle of a load job.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, paused, reason, rows_per_second, bytes_per_second (NULL: no limit), loaders.
-- Result: none.
-- Privileges: INSERT, UPDATE on THROTTLE.
-- Oldest version: MariaDB 10.6, MySQL 8.0. A rate counts from the time when it was set, so that earlier blocks do not
--   count for a lower rate.
INSERT INTO ${schema}.${prefix}throttle
    (slave, paused, reason, rows_per_second, bytes_per_second, loaders, since, updated_at)
VALUES (%(slave)s, %(paused)s, %(reason)s, %(rows_per_second)s, %(bytes_per_second)s, %(loaders)s, ${clock}, ${clock})
ON DUPLICATE KEY UPDATE
    since = CASE WHEN rows_per_second <=> %(rows_per_second)s AND bytes_per_second <=> %(bytes_per_second)s
                 THEN since ELSE ${clock} END,
    paused = %(paused)s, reason = %(reason)s, rows_per_second = %(rows_per_second)s,
    bytes_per_second = %(bytes_per_second)s, loaders = %(loaders)s, updated_at = ${clock}
