-- Grants an account, which is no superuser, everything that a master's account needs.
-- Called by: an administrator, after role.sql, once for each schema with replicated tables and each owner of such tables:
--   sed -e 's/${role}/sluice/g' -e 's/${schema}/sluice/g' -e 's/${tables}/public/g' -e 's/${owner}/shop_owner/g' \
--     grants.sql | psql -1 -v ON_ERROR_STOP=1 DATABASE
-- Placeholders: ${role} the account, ${schema} the schema that it gets for the DbResources (schema: of the configuration,
--   default sluice), ${tables} a schema with tables to replicate, ${owner} the role that owns these; all quoted
--   if their names need it.
-- Result: none. Privileges: superuser, or the owner of the database, the schemas and the tables, who is a member of the
--   account. Oldest version: PostgreSQL 14.
--
-- docs/privileges.md explains each privilege, and lists others that few replications need. The task check of the DAGs lists
-- what is missing, with the statements.

-- Names mean PostgreSQL's own: the account may be able to create in a schema that the administrator's search_path names.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $sluice$
BEGIN
    EXECUTE 'GRANT CONNECT ON DATABASE ' || quote_ident(current_database()) || $name$ TO ${role}$name$;
END
$sluice$;
-- The account's own, and closed to everybody else: what triggers call runs as their functions' owner (docs/security.md).
-- One that is there already stays as it is: where others may create in it, the task check refuses it and says why.
CREATE SCHEMA IF NOT EXISTS ${schema} AUTHORIZATION ${role};
GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${role};
GRANT USAGE ON SCHEMA ${tables} TO ${role};
GRANT SELECT, TRIGGER ON ALL TABLES IN SCHEMA ${tables} TO ${role};
GRANT SELECT ON ALL SEQUENCES IN SCHEMA ${tables} TO ${role};
-- What the owner makes later. Default privileges belong to the role that makes an object: without FOR ROLE they would
-- cover the administrator's own tables alone.
ALTER DEFAULT PRIVILEGES FOR ROLE ${owner} IN SCHEMA ${tables} GRANT SELECT, TRIGGER ON TABLES TO ${role};
ALTER DEFAULT PRIVILEGES FOR ROLE ${owner} IN SCHEMA ${tables} GRANT SELECT ON SEQUENCES TO ${role};
