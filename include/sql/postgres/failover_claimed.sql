-- Which failover has claimed the master.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources.
-- Result: JSON: id, slave, phase.
-- Privileges: SELECT on INFO.
-- Oldest version: PostgreSQL 14.
SELECT value FROM ${schema}.${prefix}info WHERE name = 'failover'
