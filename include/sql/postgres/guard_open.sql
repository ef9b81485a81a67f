-- The function of a table's guard, which refuses nothing.
-- Called by: sluice.failover.
-- Placeholders: ${schema} of the DbResources; ${function} its quoted name.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.
CREATE OR REPLACE FUNCTION ${schema}.${function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$ BEGIN RETURN NULL; END $sluice$;
REVOKE ALL ON FUNCTION ${schema}.${function}() FROM PUBLIC;
