-- Inserts the row of a slave, in state UNCONFIGURED, unless it exists.
-- Called by: the creation of a slave's tables.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameter: slave.
-- Result: none.
-- Privileges: SELECT, INSERT on CHECKPOINT.
-- Oldest version: Oracle 12.2.
INSERT INTO ${schema}.${prefix}checkpoint (slave, state, updated_at)
SELECT %(slave)s, 'UNCONFIGURED', ${clock} FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM ${schema}.${prefix}checkpoint c WHERE c.slave = %(slave)s)
