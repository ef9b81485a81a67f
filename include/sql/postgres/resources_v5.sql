-- DbResources of one prefix on a PostgreSQL master, step 5: bounds of partitions are put together from constants.
-- Called by: sluice.capture, and by hand, as resources_v1.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: those of the account that installed step 1.
-- Oldest version: PostgreSQL 14.

-- The bounds that earlier steps recorded may call functions of the tables' owners: the next comparison records them anew.
UPDATE ${schema}.${prefix}partitions SET bound = NULL;
