-- THROTTLE. Each statement is a section with its name.

-- name: throttle_read
-- Reads the throttle of a slave's load.
-- Called by: a worker before each block, progress.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: paused, reason, rows_per_second, bytes_per_second, loaders, ahead_seconds; or no row.
-- Privileges: SELECT on THROTTLE and BLOCKS.
-- Oldest version: PostgreSQL 13. AHEAD_SECONDS is the level of a leaky bucket: each block adds to it when it is stored or
--   exported, and it empties at the rate. It is the maximum, over all times, of what came since that time minus what the
--   rate allows since then.
SELECT t.paused, t.reason, t.rows_per_second, t.bytes_per_second, t.loaders,
       CASE WHEN t.rows_per_second IS NULL AND t.bytes_per_second IS NULL THEN 0.0
            ELSE coalesce((
                SELECT max(greatest(filled.rows / t.rows_per_second, filled.bytes / t.bytes_per_second) - filled.age)
                FROM (SELECT sum(b.rows) OVER later AS rows, sum(b.bytes) OVER later AS bytes,
                             extract(epoch FROM clock_timestamp() - b.stored_at)::float8 AS age
                      FROM ${schema}.${prefix}blocks b
                      WHERE b.slave = t.slave AND b.stored_at > t.since
                      WINDOW later AS (ORDER BY b.stored_at DESC ROWS UNBOUNDED PRECEDING)) AS filled), 0.0)
       END::float8
FROM ${schema}.${prefix}throttle t
WHERE t.slave = %(slave)s

-- name: throttle_write
-- Writes the throttle of a slave's load.
-- Called by: the throttle of a load job.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, paused, reason, rows_per_second, bytes_per_second (NULL: no limit), loaders.
-- Result: none.
-- Privileges: INSERT, UPDATE on THROTTLE.
-- Oldest version: PostgreSQL 13. A rate counts from the time when it was set, so that earlier blocks do not count for a
--   lower rate.
INSERT INTO ${schema}.${prefix}throttle AS t (slave, paused, reason, rows_per_second, bytes_per_second, loaders)
VALUES (%(slave)s, %(paused)s, %(reason)s, %(rows_per_second)s, %(bytes_per_second)s, %(loaders)s)
ON CONFLICT (slave) DO UPDATE
SET paused = excluded.paused, reason = excluded.reason, rows_per_second = excluded.rows_per_second,
    bytes_per_second = excluded.bytes_per_second, loaders = excluded.loaders, updated_at = clock_timestamp(),
    since = CASE WHEN (t.rows_per_second, t.bytes_per_second)
                      IS DISTINCT FROM (excluded.rows_per_second, excluded.bytes_per_second)
                 THEN clock_timestamp() ELSE t.since END
