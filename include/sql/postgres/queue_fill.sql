-- How many changes of a window, from the lowest key on, hold ${bytes} bytes of contents; one at least.
-- Called by: sluice.vendors.postgres.queue, where a survey found more than that.
-- Placeholders: as in queue_survey.sql; ${limit} changes are looked at; ${bytes} a number.
-- Result: one number, `changes`. Privileges: SELECT on ITEMS. Oldest version: PostgreSQL 14.
SELECT count(*) AS changes
FROM (
    SELECT sum(bytes) OVER (ORDER BY repl_key ROWS UNBOUNDED PRECEDING) - bytes AS before
    FROM (
        SELECT repl_key, coalesce(octet_length(content), 0) + coalesce(octet_length(oldcontent), 0)::bigint AS bytes
        FROM ${schema}.${prefix}items
        WHERE repl_key > ${floor} AND repl_key <= ${ceiling}
          AND pg_visible_in_snapshot(trans_key, ${to}::pg_snapshot)
          AND NOT pg_visible_in_snapshot(trans_key, ${from}::pg_snapshot)
          AND (${selection})
        ORDER BY repl_key
        LIMIT ${limit}
    ) each
) summed
WHERE before < ${bytes}
