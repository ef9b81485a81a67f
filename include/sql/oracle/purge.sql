-- Deletes changes that every slave has, of a range of keys: one batch.
-- Called by: sluice.vendors.oracle.source.purge, with the checkpoints of every slave; leaving one out loses its changes. Then
--   purge_longs.sql, and COMMIT.
-- Binds: :above (exclusive) and :through (inclusive), the range. :low, the lowest `low` of all those positions. :open, the
--   `open` transactions of all of them: each ID in double quotes, [] for none, never NULL.
-- Placeholders: ${prefix} as in resources_v1.sql. Result: none.
-- Privileges: owner of the tables. Oldest version: Oracle 12.2.
--
-- What lies above the lowest `low` waits for the next time, though some of it was seen by all.
DELETE FROM ${prefix}ITEMS
WHERE REPL_KEY > :above AND REPL_KEY <= :through
  AND REPL_KEY <= :low AND INSTR(:open, '"' || TRANS_KEY || '"') = 0
