-- The parse tree of an expression, from a rule of the table that was created for it.
-- Called by: sluice.vendors.postgres.expressions, on the slave.
-- Result, one row: the tree (text).
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT r.ev_action::text FROM pg_catalog.pg_rewrite r
WHERE r.ev_class = pg_catalog.to_regclass('pg_temp.sluice_expression')
