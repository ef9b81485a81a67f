-- Measures a window without reading it: number, last key and size of its changes, and its cuts.
-- Called by: sluice.vendors.postgres.source.reader.
-- Placeholders: ${window} and ${ceiling} as queue_window.sql says; ${limit}: how many changes are taken from the lowest
--   key on, a number; ${limited}: whether there may be more, true or false; ${largest}: bytes of contents.
-- Result: one row: changes taken, their last REPL_KEY (NULL for none), bytes of their contents, number of UPDATEs that
--   change a key, the cuts (TRUNCATE and DDL) as JSON [[repl_key, trans_key, action, schema, table], …], whether
--   changes may be in another order than they happened, the changes above ${largest} as JSON [[repl_key, schema, table,
--   bytes], …] (0 bytes: those that the capture did not keep), and whether more changes follow in the window.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
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
