-- An expression as PostgreSQL has parsed it: the tree of the rule that the table of an expression was given.
-- Called by: sluice.vendors.postgres.expressions, on the slave. Result, one row: the tree (text).
-- Privileges: none. Oldest version: PostgreSQL 14.
SELECT r.ev_action::text FROM pg_catalog.pg_rewrite r
WHERE r.ev_class = pg_catalog.to_regclass('pg_temp.sluice_expression')
