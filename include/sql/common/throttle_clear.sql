-- Deletes the throttle of a slave's load.
-- Called by: a load job that starts or ends.
-- Parameter: slave.
-- Placeholders: ${prefix}, ${schema}.
-- Result: none.
-- Privileges: DELETE on THROTTLE.
DELETE FROM ${schema}.${prefix}throttle WHERE slave = %(slave)s
