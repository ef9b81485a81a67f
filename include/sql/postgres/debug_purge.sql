-- Deletes the lines of DEBUG_TABLE but the last ones.
-- Called by: sluice.vendors.postgres.source.queue (housekeeping).
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql; ${kept} how many lines stay.
-- Result: none.
-- Privileges: those of the account that installed the prefix.
-- Oldest version: PostgreSQL 14.
DELETE FROM ${schema}.${prefix}debug_table
WHERE repl_key <= (SELECT d.repl_key FROM ${schema}.${prefix}debug_table d ORDER BY d.repl_key DESC OFFSET ${kept} LIMIT 1)
