-- Locks rejects whose status may be changed.
-- Called by: the apply when it answers, the DAG rejects.
-- Placeholders: ${prefix}, ${schema}; ${ids}, ${statuses} which.
-- Parameters: slave, and those of ${ids} and ${statuses}.
-- Result: the ids.
-- Privileges: SELECT, UPDATE on REJECTS.
SELECT id FROM ${schema}.${prefix}rejects WHERE slave = %(slave)s AND ${ids} AND ${statuses} FOR UPDATE
