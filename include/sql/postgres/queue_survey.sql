-- What waits in a window, without reading it: how much, how far, and what cuts the stream.
-- Called by: sluice.vendors.postgres.queue.
-- Placeholders: as in queue_items.sql; from the lowest key on, ${limit} changes (a number or ALL) are taken and
--   contents of ${bytes} bytes, but one change at least; ${look} is one more than ${limit}.
-- Result: one row: changes taken, their last REPL_KEY (NULL for none), bytes of their contents, number of UPDATEs
--   that change a key, the cuts (TRUNCATE and DDL) as JSON [[repl_key, action, schema, table], …], and whether more
--   changes follow in the window.
-- Privileges: SELECT on ITEMS. Oldest version: PostgreSQL 14.
SELECT count(*) FILTER (WHERE taken) AS changes,
       max(repl_key) FILTER (WHERE taken) AS last,
       coalesce(sum(bytes) FILTER (WHERE taken), 0)::bigint AS bytes,
       count(*) FILTER (WHERE taken AND guid IS NULL AND db_action = 'UPDATE') AS key_changes,
       (jsonb_agg(jsonb_build_array(repl_key, db_action, db_schema, tablename) ORDER BY repl_key)
           FILTER (WHERE taken AND db_action NOT IN ('INSERT', 'UPDATE', 'DELETE')))::text AS cuts,
       coalesce(bool_or(NOT taken), false) AS more
FROM (
    SELECT w.*, sum(bytes) OVER up_to_here - bytes < ${bytes} AND row_number() OVER up_to_here <= ${limit} AS taken
    FROM (
        SELECT repl_key, db_action, db_schema, tablename, guid,
               coalesce(octet_length(content), 0) + coalesce(octet_length(oldcontent), 0)::bigint AS bytes
        FROM ${schema}.${prefix}items
        WHERE repl_key > ${floor} AND repl_key <= ${ceiling}
          AND pg_visible_in_snapshot(trans_key, ${to}::pg_snapshot)
          AND NOT pg_visible_in_snapshot(trans_key, ${from}::pg_snapshot)
          AND (${selection})
        ORDER BY repl_key
        LIMIT ${look}
    ) w
    WINDOW up_to_here AS (ORDER BY repl_key ROWS UNBOUNDED PRECEDING)
) waiting
