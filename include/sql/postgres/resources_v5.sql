-- DbResources of one prefix on a PostgreSQL master, step 5: bounds of partitions are put together from constants.
-- Called by: sluice.capture, and by hand, as resources_v1.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: those of the account that installed step 1.
-- Oldest version: PostgreSQL 14.

-- The bounds that earlier steps recorded may call functions of the tables' owners: the next comparison records them anew.
UPDATE ${schema}.${prefix}partitions SET bound = NULL;

-- Functions whose parameters or results have changed.
DROP FUNCTION IF EXISTS ${schema}.${prefix}check_table(text, text, boolean, boolean),
    ${schema}.${prefix}insertion_code(text, text, oid, text, text, text, text),
    ${schema}.${prefix}rename(text, text, text, text, text, boolean);

-- By which DDL of the application finds what concerns it, among thousands of tables.
CREATE INDEX IF NOT EXISTS ${prefix}captures_relid ON ${schema}.${prefix}captures (relid);
CREATE INDEX IF NOT EXISTS ${prefix}captures_leaves ON ${schema}.${prefix}captures USING gin (leaves) WHERE leaves <> '{}';
CREATE INDEX IF NOT EXISTS ${prefix}cols_table_name ON ${schema}.${prefix}cols_table (tablename, schemaname);
CREATE INDEX IF NOT EXISTS ${prefix}tables_name ON ${schema}.${prefix}tables (tablename, schemaname);
