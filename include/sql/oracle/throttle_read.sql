-- Reads the throttle of a slave's load.
-- Called by: a worker before each block, progress.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameter: slave.
-- Result: paused, reason, rows_per_second, bytes_per_second, loaders, ahead_seconds; or no row.
-- Privileges: SELECT on THROTTLE and BLOCKS.
-- Oldest version: Oracle 12.2.
-- AHEAD_SECONDS is the level of a leaky bucket: each block adds to it when it is stored or exported, and it empties at
-- the rate. It is the maximum, over all times, of what came since that time minus what the rate allows since then.
SELECT t.paused, t.reason, t.rows_per_second, t.bytes_per_second, t.loaders,
       CASE WHEN t.rows_per_second IS NULL AND t.bytes_per_second IS NULL THEN 0
            ELSE COALESCE((
                SELECT MAX(GREATEST(COALESCE(f.sum_rows / t.rows_per_second, 0),
                                    COALESCE(f.sum_bytes / t.bytes_per_second, 0)) - f.age)
                FROM (SELECT SUM(b."rows") OVER (ORDER BY b.stored_at DESC ROWS UNBOUNDED PRECEDING) AS sum_rows,
                             SUM(b.bytes) OVER (ORDER BY b.stored_at DESC ROWS UNBOUNDED PRECEDING) AS sum_bytes,
                             (CAST(${clock} AS DATE) - CAST(b.stored_at AS DATE)) * 86400 AS age
                      FROM ${schema}.${prefix}blocks b
                      JOIN ${schema}.${prefix}throttle w ON w.slave = b.slave AND b.stored_at > w.since
                      WHERE b.slave = %(slave)s) f), 0)
       END AS ahead_seconds
FROM ${schema}.${prefix}throttle t
WHERE t.slave = %(slave)s
