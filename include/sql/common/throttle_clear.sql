-- Nothing holds the load of a slave back. Called by: a load job that starts or ends. Parameter: slave.
-- Placeholders: ${prefix}, ${schema}. Result: none. Privileges: DELETE on THROTTLE.
DELETE FROM ${schema}.${prefix}throttle WHERE slave = %(slave)s
