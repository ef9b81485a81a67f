-- The first row of a slave, state UNCONFIGURED; nothing when it is there. Placeholders: ${prefix}, ${schema}, ${clock}.
-- Called by: whatever makes a slave's tables. Parameter: slave. Result: none. Privileges: SELECT, INSERT on CHECKPOINT. Oldest version: Oracle 12.2.
INSERT INTO ${schema}.${prefix}checkpoint (slave, state, updated_at)
SELECT %(slave)s, 'UNCONFIGURED', ${clock} FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM ${schema}.${prefix}checkpoint c WHERE c.slave = %(slave)s)
