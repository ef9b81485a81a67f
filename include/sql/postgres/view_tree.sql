-- The parse tree of a view.
-- Called by: the apply, on the slave.
-- Parameter: name text, qualified and quoted.
-- Result, one row: the tree (text).
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
SELECT r.ev_action::text FROM pg_catalog.pg_rewrite r WHERE r.ev_class = pg_catalog.to_regclass(%(name)s)
