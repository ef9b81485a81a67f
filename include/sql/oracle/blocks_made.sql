-- The tables that the running initial update created on the slave.
-- Called by: its preparation.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: slave.
-- Result: schema, tablename.
-- Privileges: SELECT on BLOCKS.
-- Oldest version: Oracle 12.2.
SELECT DISTINCT "schema", tablename FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND made = 1
