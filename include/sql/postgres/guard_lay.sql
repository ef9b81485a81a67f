-- Makes a trigger that asks the function of a table's guard before each statement. Waits for writers that have an open
-- transaction.
-- Called by: sluice.failover, in a transaction for each table, after guard_open.sql.
-- Placeholders: ${prefix}, ${schema} of the DbResources; ${function} its quoted name, ${table} quoted.
-- Result: none.
-- Privileges: TRIGGER on the table.
-- Oldest version: PostgreSQL 14.
SELECT ${schema}.${prefix}make_trigger($sluice$
    CREATE OR REPLACE TRIGGER ${prefix}guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON ${table}
        FOR EACH STATEMENT EXECUTE FUNCTION ${schema}.${function}()$sluice$);
