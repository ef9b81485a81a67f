-- The condition under which a row of ITEMS, i, belongs to a window: the position at its end covers the change, and the
-- one at its start does not, as sluice.vendors.oracle.queue_position.QueuePosition.covers says. A part of other statements.
-- Called by: sluice.vendors.oracle.source.reader, as ${window} in the other queue_ files.
-- Binds: floor (exclusive) and ceiling (inclusive), bounds of REPL_KEY; low, open, seen of the position at the end;
--   former_low, former_high, former_open, former_seen of the one at the start. Sets of transactions are texts: each ID in
--   double quotes, [] for none, never NULL.
-- Result: a boolean.
-- Privileges: those of the whole statement.
-- Oldest version: Oracle 12.2.
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
