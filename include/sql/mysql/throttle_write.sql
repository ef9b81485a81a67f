-- Writes the throttle of a slave's load.
-- Called by: the throttle of a load job.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, paused, reason, rows_per_second, bytes_per_second (NULL: no limit), loaders.
-- Result: none.
-- Privileges: INSERT, UPDATE on THROTTLE.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
-- A rate counts from the time when it was set, so that earlier blocks do not count for a lower rate.
INSERT INTO ${schema}.${prefix}throttle
    (slave, paused, reason, rows_per_second, bytes_per_second, loaders, since, updated_at)
VALUES (%(slave)s, %(paused)s, %(reason)s, %(rows_per_second)s, %(bytes_per_second)s, %(loaders)s, ${clock}, ${clock})
ON DUPLICATE KEY UPDATE
    since = CASE WHEN rows_per_second <=> %(rows_per_second)s AND bytes_per_second <=> %(bytes_per_second)s
                 THEN since ELSE ${clock} END,
    paused = %(paused)s, reason = %(reason)s, rows_per_second = %(rows_per_second)s,
    bytes_per_second = %(bytes_per_second)s, loaders = %(loaders)s, updated_at = ${clock}
