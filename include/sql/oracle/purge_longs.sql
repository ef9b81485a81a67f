-- Deletes the rows of LONGS_TABLE whose changes were purged.
-- Called by: sluice.vendors.oracle.source.queue after purge.sql, in its transaction.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: none.
-- Result: none.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
DELETE FROM ${prefix}LONGS_TABLE
WHERE NOT EXISTS (SELECT 1 FROM ${prefix}ITEMS i WHERE i.REPL_KEY = ${prefix}LONGS_TABLE.REPL_KEY)
