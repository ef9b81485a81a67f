-- Whether a relation exists.
-- Called by: sluice.failover, for sequences of the application.
-- Parameter: relation, its quoted name.
-- Result: one boolean.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT to_regclass(%(relation)s) IS NOT NULL
