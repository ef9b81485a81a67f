-- Reading ITEMS. Each statement is a section with its name.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.

-- name: queue_definitions
-- The definitions under which the next changes of some tables were captured: OLDCONTENT of the first change of the definition
--   that a position has not seen. Without one, that of the last change: if the catalog has another one, no item tells of it yet.
-- Called by: the apply, for a table that it has not seen before.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: schemas, names (pairs), floor (REPL_KEY), snapshot (text of pg_snapshot).
-- Result: schema, table, definition; NULL if there is none.
SELECT DISTINCT ON (w.schema, w.name) w.schema, w.name, coalesce(i.oldcontent, ${schema}.${prefix}described(w.schema, w.name))
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
LEFT JOIN ${schema}.${prefix}items i ON i.db_schema = w.schema AND i.tablename = w.name
    AND i.repl_key > %(floor)s AND i.db_action IN ('CREATE', 'ALTER', 'DROP')
    AND NOT pg_visible_in_snapshot(i.trans_key, %(snapshot)s::pg_snapshot)
ORDER BY w.schema, w.name, i.repl_key

-- name: queue_fill
-- How many changes of a window, from the lowest key on, have ${bytes} bytes of contents; at least one.
-- Called by: sluice.vendors.postgres.source.reader, where a survey found more than that.
-- Placeholders: ${window} as in queue_window; ${limit} changes are looked at; ${bytes} a number.
-- Result: one number, `changes`.
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

-- name: queue_first
-- The first transaction of a window, by its lowest REPL_KEY, that changes a table whose changes are applied.
-- Called by: sluice.vendors.postgres.source.queue.
-- Placeholders: ${schema} quoted schema, ${prefix} e.g. demo_; ${window} as queue_window says; ${applied} the
--   condition that changes of a row's table are applied.
-- Result: its tables, each as schema, table, number of changes, actions; no row if nothing waits.
WITH first AS (
    SELECT trans_key FROM ${schema}.${prefix}items WHERE ${window} AND ${applied} ORDER BY repl_key LIMIT 1
)
SELECT db_schema, tablename, count(*), array_agg(DISTINCT db_action ORDER BY db_action)
FROM ${schema}.${prefix}items
WHERE ${window} AND trans_key = (SELECT trans_key FROM first)
GROUP BY db_schema, tablename
ORDER BY db_schema, tablename

-- name: queue_items
-- Reads a window of ITEMS, in REPL_KEY order.
-- Called by: sluice.vendors.postgres.source.reader, over ADBC and therefore without parameters.
-- Placeholders: ${schema} quoted schema, ${prefix} e.g. demo_; ${window} as queue_window says; ${old} the condition
--   under which OLDCONTENT is needed; ${largest} the bytes of contents above which they are left out.
-- Result: repl_key, trans_key (an xid8), schema, table, guid, action, content, oldcontent, and whether changes of its
--   transaction may be in another order than they happened (capture_code.sql). OLDCONTENT is returned only if a key or an
--   old image is read from it: a plain UPDATE that keeps its key needs none. Last, the bytes of contents that are left
--   out, else NULL; their length is known without reading them; 0 where the capture did not keep them.
SELECT repl_key, trans_key, db_schema AS "schema", tablename AS "table", guid,
       db_action AS action, CASE WHEN bytes <= ${largest} THEN content END AS content,
       CASE WHEN bytes <= ${largest} AND (${old}) THEN oldcontent END AS oldcontent, version = '2' AS unordered,
       CASE WHEN '<not-kept/>' IN (content, oldcontent) THEN 0 WHEN bytes > ${largest} THEN bytes END AS left_out
FROM ${schema}.${prefix}items,
     LATERAL (SELECT coalesce(octet_length(content), 0)::bigint + coalesce(octet_length(oldcontent), 0) AS bytes) sizes
WHERE ${window}
ORDER BY repl_key

-- name: queue_joining
-- The tables that join in what a slave has not applied yet: the last CREATE item of each, and whether all rows of the
--   table follow.
-- Called by: the DAG reconcile_tables, to start the loads of those that need one.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: floor (REPL_KEY), snapshot (text of pg_snapshot).
-- Result: schema, table, complete.
SELECT DISTINCT ON (i.db_schema, i.tablename) i.db_schema, i.tablename, i.content LIKE '<desc complete="true" %%'
FROM ${schema}.${prefix}items i
WHERE i.repl_key > %(floor)s AND i.db_action = 'CREATE'
  AND NOT pg_visible_in_snapshot(i.trans_key, %(snapshot)s::pg_snapshot)
ORDER BY i.db_schema, i.tablename, i.repl_key DESC

-- name: queue_survey
-- Measures a window without reading it: number, last key and size of its changes, and its cuts.
-- Called by: sluice.vendors.postgres.source.reader.
-- Placeholders: ${window} and ${ceiling} as queue_window says; ${limit}: how many changes are taken from the lowest
--   key on, a number; ${limited}: whether there may be more, true or false; ${largest}: bytes of contents.
-- Result: one row: changes taken, their last REPL_KEY (NULL for none), bytes of their contents, number of UPDATEs that
--   change a key, the cuts (TRUNCATE and DDL) as JSON [[repl_key, trans_key, action, schema, table], …], whether changes
--   may be in another order than they happened, the changes above ${largest} as JSON [[repl_key, schema, table, bytes],
--   …] (0 bytes: those that the capture did not keep), and whether more changes follow in the window.
WITH following AS (
    -- The first change that is not taken.
    SELECT repl_key AS first
    FROM ${schema}.${prefix}items
    WHERE ${limited} AND ${window}
    ORDER BY repl_key
    OFFSET ${limit} LIMIT 1
)
SELECT count(*) AS changes,
       max(repl_key) AS last,
       coalesce(sum(coalesce(octet_length(content), 0) + coalesce(octet_length(oldcontent), 0)::bigint), 0)::bigint AS bytes,
       count(*) FILTER (WHERE guid IS NULL AND db_action = 'UPDATE') AS key_changes,
       (jsonb_agg(jsonb_build_array(repl_key, trans_key::text::bigint, db_action, db_schema, tablename) ORDER BY repl_key)
           FILTER (WHERE db_action NOT IN ('INSERT', 'UPDATE', 'DELETE')))::text AS cuts,
       coalesce(bool_or(version = '2'), false) AS unordered,
       (jsonb_agg(jsonb_build_array(repl_key, db_schema, tablename, CASE WHEN '<not-kept/>' IN (content, oldcontent) THEN 0
               ELSE coalesce(octet_length(content), 0)::bigint + coalesce(octet_length(oldcontent), 0) END))
           FILTER (WHERE coalesce(octet_length(content), 0)::bigint + coalesce(octet_length(oldcontent), 0) > ${largest}
                   OR '<not-kept/>' IN (content, oldcontent)))::text AS oversized,
       EXISTS (SELECT FROM following) AS more
FROM ${schema}.${prefix}items
WHERE ${window} AND repl_key < coalesce((SELECT first FROM following), ${ceiling} + 1)

-- name: queue_window
-- The condition under which a row of ITEMS belongs to a window; a part of other statements.
-- Called by: sluice.vendors.postgres.source.reader (Window), as ${window} in queue_items, queue_survey,
--   queue_fill.
-- Placeholders: ${floor}, ${ceiling} bounds of REPL_KEY (above, up to); ${from}, ${to} texts of pg_snapshot; ${selection}
--   further conditions or true. A key is drawn before its transaction commits. The two snapshots decide what belongs to
--   the window; the bounds only shorten the scan.
-- Result: a boolean.
repl_key > ${floor} AND repl_key <= ${ceiling}
AND pg_visible_in_snapshot(trans_key, ${to}::pg_snapshot)
AND NOT pg_visible_in_snapshot(trans_key, ${from}::pg_snapshot)
AND (${selection})
