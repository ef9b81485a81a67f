-- Creates the account of a replication, a role that may only log in. For the master and for each slave.
-- Called by: an administrator, once on each server:
--   sed -e 's/${role}/sluice/g' role.sql | psql -1 -v ON_ERROR_STOP=1 DATABASE
--   psql -c '\password sluice' DATABASE
--   The second command asks for the password, and sends it encrypted: it is in no file, command line or log.
-- Placeholder: ${role} the account, quoted if its name needs it. An existing role is not changed.
-- Result: none. Privileges: CREATEROLE, or superuser. Oldest version: PostgreSQL 14.
DO $sluice$
BEGIN
    CREATE ROLE ${role} LOGIN;
EXCEPTION WHEN duplicate_object THEN
    NULL;
END
$sluice$;
