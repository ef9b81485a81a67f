-- Nothing holds the load of a slave back. Called by: a load job that starts or ends. Parameter: slave.
-- Placeholders: ${prefix}, ${schema}. Result: none. Privileges: DELETE on THROTTLE. Oldest version: PostgreSQL 13.
DELETE FROM ${schema}.${prefix}throttle WHERE slave = %(slave)s
