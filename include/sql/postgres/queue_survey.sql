-- What waits in a window, without reading it: how much, how far, and what cuts the stream.
-- Called by: sluice.vendors.postgres.queue.
-- Placeholders: as in queue_items.sql; ${limit} changes are looked at, from the lowest key on.
-- Result: one row: changes, last REPL_KEY among them (NULL for none), bytes of their contents,
--   number of UPDATEs that change a key, and the cuts (TRUNCATE and DDL) as JSON [[repl_key, action, schema, table], …].
-- Privileges: SELECT on ITEMS. Oldest version: PostgreSQL 14.
SELECT count(*) AS changes, max(repl_key) AS last, coalesce(sum(bytes), 0)::bigint AS bytes,
       count(*) FILTER (WHERE guid IS NULL AND db_action = 'UPDATE') AS key_changes,
       (jsonb_agg(jsonb_build_array(repl_key, db_action, db_schema, tablename) ORDER BY repl_key)
           FILTER (WHERE db_action NOT IN ('INSERT', 'UPDATE', 'DELETE')))::text AS cuts
FROM (
    SELECT repl_key, db_action, db_schema, tablename, guid, pg_column_size(content) AS bytes
    FROM ${schema}.${prefix}items
    WHERE repl_key > ${floor} AND repl_key <= ${ceiling}
      AND pg_visible_in_snapshot(trans_key, ${to}::pg_snapshot)
      AND NOT pg_visible_in_snapshot(trans_key, ${from}::pg_snapshot)
      AND (${selection})
    ORDER BY repl_key
    LIMIT ${limit}
) waiting
