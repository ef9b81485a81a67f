-- How many changes of a window, from the lowest key on, have ${bytes} bytes of contents; at least one.
-- Called by: sluice.vendors.postgres.source.reader, where a survey found more than that.
-- Placeholders: ${window} as in queue_window.sql; ${limit} changes are looked at; ${bytes} a number.
-- Result: one number, `changes`.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
SELECT count(*) AS changes
FROM (
    SELECT sum(bytes) OVER (ORDER BY repl_key ROWS UNBOUNDED PRECEDING) - bytes AS before
    FROM (
        SELECT repl_key, coalesce(octet_length(content), 0) + coalesce(octet_length(oldcontent), 0)::bigint AS bytes
        FROM ${schema}.${prefix}items
        WHERE ${window}
        ORDER BY repl_key
        LIMIT ${limit}
    ) each
) summed
WHERE before < ${bytes}
