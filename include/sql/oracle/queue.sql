-- Reading ITEMS. Each statement is a section with its name.
-- Oldest version: Oracle 12.2.

-- name: queue_cuts
-- The cuts of a window: TRUNCATE, and changes of definitions.
-- Called by: sluice.vendors.oracle.source.reader.
-- Placeholders: ${prefix} as in resources_v1.sql; ${window} as queue_window.
-- Binds: those of queue_window.
-- Result: REPL_KEY, TRANS_KEY, action, schema, table.
-- Privileges: owner of the tables.
SELECT i.REPL_KEY, i.TRANS_KEY, i.DB_ACTION, i.DB_SCHEMA, i.TABLENAME
FROM ${prefix}ITEMS i
WHERE ${window} AND i.DB_ACTION NOT IN ('INSERT', 'UPDATE', 'DELETE')
ORDER BY i.REPL_KEY

-- name: queue_definitions
-- The changes of definitions in ITEMS above a key, with the definition before each.
-- Called by: sluice.vendors.oracle.source.queue.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: floor (exclusive).
-- Result: REPL_KEY, TRANS_KEY, action, schema, table, OLDCONTENT.
-- Privileges: owner of the tables.
SELECT i.REPL_KEY, i.TRANS_KEY, i.DB_ACTION, i.DB_SCHEMA, i.TABLENAME, i.OLDCONTENT
FROM ${prefix}ITEMS i
WHERE i.REPL_KEY > :floor AND i.DB_ACTION IN ('CREATE', 'ALTER', 'DROP')
ORDER BY i.REPL_KEY

-- name: queue_items
-- Reads a window of ITEMS, in REPL_KEY order. CONTENT that no trigger could read comes from LONGS_TABLE.
-- Called by: sluice.vendors.oracle.source.reader.
-- Placeholders: ${prefix} as in resources_v1.sql; ${window} as queue_window; ${selection} a further condition on i.
-- Binds: those of queue_window and of ${selection}.
-- Result: REPL_KEY, TRANS_KEY, schema, table, GUID, action, CONTENT, OLDCONTENT, VERSION.
-- Privileges: owner of the tables.
SELECT i.REPL_KEY, i.TRANS_KEY, i.DB_SCHEMA, i.TABLENAME, i.GUID, i.DB_ACTION,
       CASE WHEN i.CONTENT IS NULL AND i.DB_ACTION IN ('INSERT', 'UPDATE')
           THEN (SELECT l.CONTENT FROM ${prefix}LONGS_TABLE l WHERE l.REPL_KEY = i.REPL_KEY)
           ELSE i.CONTENT END AS CONTENT,
       i.OLDCONTENT, i.VERSION
FROM ${prefix}ITEMS i
WHERE ${window} AND ${selection}
ORDER BY i.REPL_KEY

-- name: queue_survey
-- Measures a window without reading its contents: one row a change, from the lowest key on.
-- Called by: sluice.vendors.oracle.source.reader.
-- Placeholders: as in queue_items.
-- Binds: those of queue_window and of ${selection}; most, the maximum number of rows.
-- Result: REPL_KEY, characters of its contents, 1 if it is an UPDATE that changes a key, else 0.
-- Privileges: owner of the tables.
SELECT s.REPL_KEY, s.LETTERS, s.KEY_CHANGE
FROM (
    SELECT i.REPL_KEY, NVL(LENGTH(i.CONTENT), 0) + NVL(LENGTH(i.OLDCONTENT), 0) AS LETTERS,
           CASE WHEN i.DB_ACTION = 'UPDATE' AND i.GUID IS NULL THEN 1 ELSE 0 END AS KEY_CHANGE
    FROM ${prefix}ITEMS i
    WHERE ${window} AND ${selection}
    ORDER BY i.REPL_KEY
) s
WHERE ROWNUM <= :most

-- name: queue_window
-- The condition under which a row of ITEMS, i, belongs to a window: the position at its end covers the change, and the
--   one at its start does not, as sluice.vendors.oracle.queue_position.QueuePosition.covers says. A part of other
--   statements.
-- Called by: sluice.vendors.oracle.source.reader, as ${window} in the other queue_ files.
-- Binds: floor (exclusive) and ceiling (inclusive), bounds of REPL_KEY; low, open, seen of the position at the end;
--   former_low, former_high, former_open, former_seen of the one at the start. Sets of transactions are texts: each ID in
--   double quotes, [] for none, never NULL.
-- Result: a boolean.
-- Privileges: those of the whole statement.
i.REPL_KEY > :floor AND i.REPL_KEY <= :ceiling
  AND CASE
      WHEN i.REPL_KEY <= :low AND INSTR(:open, '"' || i.TRANS_KEY || '"') = 0 THEN 1
      WHEN i.REPL_KEY > :low AND INSTR(:seen, '"' || i.TRANS_KEY || '"') > 0 THEN 1
      ELSE 0 END = 1
  AND CASE
      WHEN i.REPL_KEY <= :former_low AND INSTR(:former_open, '"' || i.TRANS_KEY || '"') = 0 THEN 1
      WHEN i.REPL_KEY > :former_low AND i.REPL_KEY <= :former_high
          AND INSTR(:former_seen, '"' || i.TRANS_KEY || '"') > 0 THEN 1
      ELSE 0 END = 0
