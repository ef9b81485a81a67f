-- The changes of a window, in the order in which they are applied. Membership decides, as in
-- sluice.vendors.oracle.queue_position.QueuePosition.covers: covered by the target, and not by the position before.
-- Binds: :floor, :low, :high, :open, :seen of the target, :former_low, :former_high, :former_open, :former_seen of the one
--   before. Sets of transactions are texts: each ID in double quotes, [] for none, never NULL.
-- Placeholders: ${prefix} as in resources_v1.sql. Result: one row a change.
-- Privileges: owner of the tables. Oldest version: Oracle 12.2.
SELECT i.REPL_KEY, i.TRANS_KEY, i.DB_SCHEMA, i.TABLENAME, i.GUID, i.DB_ACTION, i.CONTENT, i.OLDCONTENT
FROM ${prefix}ITEMS i
WHERE i.REPL_KEY > :floor AND i.REPL_KEY <= :high
  AND CASE
      WHEN i.REPL_KEY <= :low AND INSTR(:open, '"' || i.TRANS_KEY || '"') = 0 THEN 1
      WHEN i.REPL_KEY > :low AND INSTR(:seen, '"' || i.TRANS_KEY || '"') > 0 THEN 1
      ELSE 0 END = 1
  AND CASE
      WHEN i.REPL_KEY <= :former_low AND INSTR(:former_open, '"' || i.TRANS_KEY || '"') = 0 THEN 1
      WHEN i.REPL_KEY > :former_low AND i.REPL_KEY <= :former_high
          AND INSTR(:former_seen, '"' || i.TRANS_KEY || '"') > 0 THEN 1
      ELSE 0 END = 0
ORDER BY i.REPL_KEY
