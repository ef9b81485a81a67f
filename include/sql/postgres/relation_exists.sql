-- Whether a table is there. Called by: whatever reads tables of Sluice's that need not be there yet.
-- Parameter: relation, its quoted name. Result: one boolean. Privileges: none. Oldest version: PostgreSQL 13.
SELECT to_regclass(%(relation)s) IS NOT NULL
