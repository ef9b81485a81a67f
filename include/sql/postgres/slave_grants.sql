-- Grants an account, which is no superuser, everything that a slave's account needs.
-- Called by: an administrator, after role.sql, once for each schema in which replicated tables will live:
--   sed -e 's/${role}/sluice/g' -e 's/${schema}/sluice/g' -e 's/${tables}/public/g' slave_grants.sql |
--     psql -1 -v ON_ERROR_STOP=1 DATABASE
--   The database itself, if it is missing, in the master's encoding or in UTF8:
--   psql -c "CREATE DATABASE shop ENCODING 'UTF8' TEMPLATE template0" postgres
-- Placeholders: ${role} the account, ${schema} the schema that it gets for CHECKPOINT, BLOCKS and REJECTS (schema: of the
--   slave in the configuration, sluice where it names none), ${tables} a schema of replicated tables; all quoted if
--   their names need it. Missing schemas are created.
-- Result: none. Privileges: superuser, as of SET ON PARAMETER. Oldest version: PostgreSQL 14.
--
-- Existing tables should belong to the account: ALTER TABLE ... OWNER TO ${role}.

-- Names mean PostgreSQL's own: the account may be able to create in a schema that the administrator's search_path names.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $sluice$
BEGIN
    EXECUTE 'GRANT CONNECT, TEMPORARY, CREATE ON DATABASE ' || quote_ident(current_database()) || $name$ TO ${role}$name$;
    -- Before 15 it cannot be granted; a superuser sets it for every session of the account in this database.
    IF current_setting('server_version_num')::int >= 150000 THEN
        EXECUTE $name$GRANT SET ON PARAMETER session_replication_role TO ${role}$name$;
    ELSE
        EXECUTE $name$ALTER ROLE ${role} IN DATABASE $name$ || quote_ident(current_database())
            || ' SET session_replication_role = replica';
    END IF;
END
$sluice$;
-- The account's own, and closed to everybody else (docs/security.md). One that is there already stays as it is.
CREATE SCHEMA IF NOT EXISTS ${schema} AUTHORIZATION ${role};
CREATE SCHEMA IF NOT EXISTS ${tables};
GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${role};
GRANT USAGE, CREATE ON SCHEMA ${tables} TO ${role};
