-- Records what was created on the slave in this transaction, or removes the last record (undo).
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, made (a JSON object; NULL: the last record is removed).
-- Privileges: UPDATE.
-- Oldest version: PostgreSQL 13.
UPDATE ${schema}.${prefix}failover
SET made = CASE WHEN %(made)s::jsonb IS NULL THEN made - (-1) ELSE made || jsonb_build_array(%(made)s::jsonb) END,
    updated_at = clock_timestamp()
WHERE slave = %(slave)s
