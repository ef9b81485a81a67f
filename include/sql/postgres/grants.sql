-- Grants an account that is no superuser all it needs to be a master's account.
-- Called by: an administrator, once for each schema with replicated tables:
--   sed -e 's/${role}/sluice/g' -e 's/${schema}/replication/g' -e 's/${tables}/public/g' grants.sql | psql -1 DATABASE
-- Placeholders: ${role} the account, ${schema} where the DbResources will live, ${tables} a schema with tables to
--   replicate; all three quoted where their names need it.
-- Result: none. Privileges: owner of the tables and schemas, or superuser. Oldest version: PostgreSQL 14.
--
-- | privilege                       | on                        | why                                             |
-- |---------------------------------|---------------------------|-------------------------------------------------|
-- | CONNECT                         | the database              |                                                 |
-- | USAGE, CREATE                   | schema of the DbResources | install_resources makes its objects there       |
-- | USAGE                           | schemas of the tables     | to name the tables                              |
-- | SELECT                          | each replicated table     | the initial update and verification read it     |
-- | TRIGGER                         | each replicated table     | reconcile_tables makes its triggers             |
-- | (BYPASSRLS, only if tables      | the account               | rows hidden from the account would be missing   |
-- |  have row level security)       |                           | from initial updates                            |
-- | (pg_read_all_stats, only if     | the account               | initial.throttle limits active_sessions or      |
-- |  initial updates are throttled) |                           | replica_lag                                     |
-- | (UPDATE, only if initial        | each replicated table     | rows are locked with SELECT … FOR SHARE         |
-- |  updates say read: locked)      |                           |                                                 |
-- | (superuser, only once)          | event_triggers.sql        | DDL noticed at once instead of by comparison    |
--
-- The accounts that write to the tables need nothing: triggers run with the rights of the account that made them.
DO $sluice$
BEGIN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO ${role}', current_database());
END
$sluice$;
GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${role};
GRANT USAGE ON SCHEMA ${tables} TO ${role};
GRANT SELECT, TRIGGER ON ALL TABLES IN SCHEMA ${tables} TO ${role};
-- Tables that this administrator makes later. Other owners of tables grant for themselves in the same way.
ALTER DEFAULT PRIVILEGES IN SCHEMA ${tables} GRANT SELECT, TRIGGER ON TABLES TO ${role};
