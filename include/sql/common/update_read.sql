-- Reads the state and the owner of a slave's load.
-- Called by: the steps of an initial update, loaders before each block.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: slave.
-- Result: state, update_id, message, position_time (the slave is current as of it).
-- Privileges: SELECT on CHECKPOINT.
SELECT state, update_id, message, position_time FROM ${schema}.${prefix}checkpoint WHERE slave = %(slave)s
