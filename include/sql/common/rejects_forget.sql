-- Deletes rejects that were settled long ago.
-- Called by: the DAG housekeeping.
-- Placeholders: ${prefix}, ${schema}; ${settled} which statuses.
-- Parameters: slave, before, and those of ${settled}.
-- Result: none.
-- Privileges: DELETE on REJECTS.
DELETE FROM ${schema}.${prefix}rejects WHERE slave = %(slave)s AND settled_at < %(before)s AND ${settled}
