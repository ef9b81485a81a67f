-- Writes the throttle of a slave's load.
-- Called by: the throttle of a load job.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, paused, reason, rows_per_second, bytes_per_second (NULL: no limit), loaders.
-- Result: none.
-- Privileges: INSERT, UPDATE on THROTTLE.
-- Oldest version: PostgreSQL 13.
-- A rate counts from the time when it was set, so that earlier blocks do not count for a lower rate.
INSERT INTO ${schema}.${prefix}throttle AS t (slave, paused, reason, rows_per_second, bytes_per_second, loaders)
VALUES (%(slave)s, %(paused)s, %(reason)s, %(rows_per_second)s, %(bytes_per_second)s, %(loaders)s)
ON CONFLICT (slave) DO UPDATE
SET paused = excluded.paused, reason = excluded.reason, rows_per_second = excluded.rows_per_second,
    bytes_per_second = excluded.bytes_per_second, loaders = excluded.loaders, updated_at = clock_timestamp(),
    since = CASE WHEN (t.rows_per_second, t.bytes_per_second)
                      IS DISTINCT FROM (excluded.rows_per_second, excluded.bytes_per_second)
                 THEN clock_timestamp() ELSE t.since END
