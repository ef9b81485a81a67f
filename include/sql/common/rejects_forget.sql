-- Changes that were set aside and settled long ago are removed. Called by: the DAG housekeeping.
-- Placeholders: ${prefix}, ${schema}; ${settled} which statuses. Parameters: slave, before, and those of ${settled}.
-- Result: none. Privileges: DELETE on REJECTS.
DELETE FROM ${schema}.${prefix}rejects WHERE slave = %(slave)s AND settled_at < %(before)s AND ${settled}
