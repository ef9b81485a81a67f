-- THROTTLE. Each statement is a section with its name.

-- name: throttle_read
-- Reads the throttle of a slave's load.
-- Called by: a worker before each block, progress.
-- Placeholders: ${prefix}, ${schema}, ${clock}. Parameter: slave.
-- Result: paused, reason, rows_per_second, bytes_per_second, loaders, ahead_seconds; or no row.
-- Privileges: SELECT on THROTTLE and BLOCKS.
-- Oldest version: Oracle 12.2. AHEAD_SECONDS is the level of a leaky bucket: each block adds to it when it is stored or
--   exported, and it empties at the rate. It is the maximum, over all times, of what came since that time minus what the
--   rate allows since then.
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

-- name: throttle_say
-- Writes the reason of a throttle into the slave's message, unless the message is from the apply or from another update.
-- Called by: the throttle of a load job.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, update_id, message; ours: the beginning of messages of initial updates.
-- Result: none.
-- Privileges: UPDATE on CHECKPOINT.
-- Oldest version: Oracle 12.2.
UPDATE ${schema}.${prefix}checkpoint SET message = %(message)s, updated_at = ${clock}
WHERE slave = %(slave)s AND update_id = %(update_id)s AND state = 'TRANSITION'
  AND (message IS NULL OR TO_CHAR(SUBSTR(message, 1, LENGTH(%(ours)s))) = %(ours)s)

-- name: throttle_write
-- Writes the throttle of a slave's load.
-- Called by: the throttle of a load job.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, paused, reason, rows_per_second, bytes_per_second (NULL: no limit), loaders.
-- Result: none.
-- Privileges: INSERT, UPDATE on THROTTLE.
-- Oldest version: Oracle 12.2. A rate counts from the time when it was set, so that earlier blocks do not count for a
--   lower rate.
MERGE INTO ${schema}.${prefix}throttle t
USING (SELECT %(slave)s AS slave FROM DUAL) w ON (t.slave = w.slave)
WHEN MATCHED THEN UPDATE SET
    since = CASE WHEN NVL(rows_per_second, -1) = NVL(TO_BINARY_DOUBLE(%(rows_per_second)s), -1)
                  AND NVL(bytes_per_second, -1) = NVL(TO_BINARY_DOUBLE(%(bytes_per_second)s), -1)
             THEN since ELSE ${clock} END,
    paused = %(paused)s, reason = %(reason)s, rows_per_second = %(rows_per_second)s,
    bytes_per_second = %(bytes_per_second)s, loaders = %(loaders)s, updated_at = ${clock}
WHEN NOT MATCHED THEN INSERT
    (slave, paused, reason, rows_per_second, bytes_per_second, loaders, since, updated_at)
    VALUES (w.slave, %(paused)s, %(reason)s, %(rows_per_second)s, %(bytes_per_second)s, %(loaders)s, ${clock}, ${clock})
