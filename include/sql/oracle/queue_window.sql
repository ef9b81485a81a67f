-- The condition that a change of ITEMS, i, is in a window: covered by the target, and not by the position before, as
-- sluice.vendors.oracle.queue_position.QueuePosition.covers says. Part of the other queue_ files.
-- Called by: sluice.vendors.oracle.source.queue. Placeholders: none. Privileges: those of the whole. Oldest version: Oracle 12.2.
-- Binds: :floor (exclusive) and :ceiling (inclusive), keys between which it lies; :low, :open, :seen of the target,
--   :former_low, :former_high, :former_open, :former_seen of the one before. Sets of transactions are texts: each ID in double
--   quotes, [] for none, never NULL.
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
