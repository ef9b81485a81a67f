-- Deletes one batch of the changes that every slave has, of a range of keys.
-- Called by: sluice.vendors.oracle.source.queue, which then runs purge_longs.sql and commits.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: above (exclusive) and through (inclusive), the range; low, the lowest `low` of the positions of all slaves'
--   checkpoints; open, the `open` transactions of all of them, each ID in double quotes, [] for none, never NULL. A slave
--   that is left out of them loses its changes.
-- Result: none.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
--
-- Changes above the lowest `low` are deleted by a later purge, even if all slaves have them.
DELETE FROM ${prefix}ITEMS
WHERE REPL_KEY > :above AND REPL_KEY <= :through
  AND REPL_KEY <= :low AND INSTR(:open, '"' || TRANS_KEY || '"') = 0
