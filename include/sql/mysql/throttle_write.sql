-- What the load of a slave is held to from now on. Called by: the throttle of a load job. Placeholders: ${prefix},
-- ${schema}, ${clock}. Parameters: slave, paused, reason, rows_per_second, bytes_per_second (NULL: no limit), loaders.
-- Result: none. Privileges: INSERT, UPDATE on THROTTLE.
-- A rate counts from when it was set: what was loaded before must not be paid for under a lower one.
INSERT INTO ${schema}.${prefix}throttle
    (slave, paused, reason, rows_per_second, bytes_per_second, loaders, since, updated_at)
VALUES (%(slave)s, %(paused)s, %(reason)s, %(rows_per_second)s, %(bytes_per_second)s, %(loaders)s, ${clock}, ${clock})
ON DUPLICATE KEY UPDATE
    since = CASE WHEN rows_per_second <=> %(rows_per_second)s AND bytes_per_second <=> %(bytes_per_second)s
                 THEN since ELSE ${clock} END,
    paused = %(paused)s, reason = %(reason)s, rows_per_second = %(rows_per_second)s,
    bytes_per_second = %(bytes_per_second)s, loaders = %(loaders)s, updated_at = ${clock}
