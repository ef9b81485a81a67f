-- Captures of other replications in this database whose account this account is not a member of: they would capture
-- what this account applies.
-- Called by: the preflight, on a slave.
-- Result, one row a capture: the quoted name of its ITEMS, its account quoted.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT format('%I.%I', n.nspname, regexp_replace(c.relname, 'captures$', 'items')), format('%I', r.rolname)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
WHERE c.relkind = 'r' AND c.relname LIKE '%captures' AND NOT pg_catalog.pg_has_role(c.relowner, 'MEMBER')
  AND EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'trigger_fingerprint')
ORDER BY 1
