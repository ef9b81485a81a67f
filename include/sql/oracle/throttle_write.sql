-- Writes the throttle of a slave's load.
-- Called by: the throttle of a load job.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, paused, reason, rows_per_second, bytes_per_second (NULL: no limit), loaders.
-- Result: none.
-- Privileges: INSERT, UPDATE on THROTTLE.
-- Oldest version: Oracle 12.2.
-- A rate counts from the time when it was set, so that earlier blocks do not count for a lower rate.
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
