-- DbResources of one prefix on a PostgreSQL master, step 3: capture functions by which no code of others gains rights.
-- Called by: sluice.capture, and by hand, as resources_v1.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: those of the account that installed step 1.
-- Oldest version: PostgreSQL 14.

-- Functions whose parameters have changed, or that are no longer called.
DROP FUNCTION IF EXISTS ${schema}.${prefix}value_code(text, text, boolean),
    ${schema}.${prefix}changed_code(text, text, text, text, boolean, boolean, boolean),
    ${schema}.${prefix}oldcontent_code(oid, text, text), ${schema}.${prefix}guid_code(oid, text, text),
    ${schema}.${prefix}guard_code(text, text, oid, text), ${schema}.${prefix}settle_code(text, text, oid, text),
    ${schema}.${prefix}body_code(text, text, oid, text, boolean, boolean, boolean, boolean, text),
    ${schema}.${prefix}partition_guard_code(oid, text), ${schema}.${prefix}late_code(oid, text),
    ${schema}.${prefix}always_code(text, text),
    ${schema}.${prefix}from_record_code(oid);
