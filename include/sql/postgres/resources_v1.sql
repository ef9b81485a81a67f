-- DbResources of one prefix on a PostgreSQL master, step 1: sequence and tables.
-- Called by: sluice.capture (inside its transaction, under an advisory lock); by hand, in this order:
--   for f in schema_make resources_v1 resources_v2 resources_v3 resources_v4 resources_v5 resources_v6 resources_v7 cols_view values definition guards origins capture_expressions \
--     partitions capture_code capture structure ddl purge replica_identity renew_functions event_triggers; do sed -e 's/${prefix}/demo_/g' -e 's/${schema}/sluice/g' $f.sql; done | psql -1 -v ON_ERROR_STOP=1 DATABASE
-- Placeholders: ${prefix} lower-case prefix, e.g. demo_; ${schema} quoted schema of the resources.
-- Result: none. What exists stays as it is: a second run changes nothing.
-- Privileges: CREATE and USAGE on the schema, in which nobody else may create (sluice.capture proves that first).
--   Oldest version: PostgreSQL 14.

-- These statements may fire triggers and functions of the account, which must not run as anybody else, least of all as a
-- superuser.
DO $sluice$
DECLARE
    owner name;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    SELECT pg_get_userbyid(c.relowner) INTO owner FROM pg_class c
    WHERE c.relnamespace = to_regnamespace($s$ ${schema}$s$) AND c.relname IN ('${prefix}info', '${prefix}items', '${prefix}tables', '${prefix}captures')
      AND pg_get_userbyid(c.relowner) <> current_user LIMIT 1;
    IF FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('Run this as %s, to whom the tables of ${prefix} belong', owner);
    END IF;
END
$sluice$;

-- The source of every unique number. CACHE 1 is essential: a session with cached numbers would draw lower ones for later
-- changes of the same row, and REPL_KEY would no longer be in the order of the changes.
CREATE SEQUENCE IF NOT EXISTS ${schema}.${prefix}seq AS bigint MINVALUE 1 NO CYCLE CACHE 1;

-- What is installed: ('version', number of the last step) and ('functions', digest of the function files).
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}info (
    name text PRIMARY KEY,
    value text NOT NULL
);

-- The queue of changes, one row for each changed row. It has no constraint except the key, and no other index, because
-- each would slow the application's statements down.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}items (
    repl_key bigint NOT NULL DEFAULT nextval($s$ ${schema}.${prefix}seq$s$::regclass),
    trans_key xid8 NOT NULL DEFAULT pg_current_xact_id(),
    dbid text,
    tablename text NOT NULL,
    guid text,
    db_action text NOT NULL,
    db_catalog text,
    db_schema text,
    content text,
    oldcontent text,
    version text,
    CONSTRAINT ${prefix}items_pkey PRIMARY KEY (repl_key)
);

-- The replicated tables. CATALOGNAME is one space: PostgreSQL has no catalogues within a database. ACTIONS: any of I, U,
-- D; NULL means all three, empty means registered without capture. REPL_KEY is the order in which tables are loaded.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}tables (
    catalogname text NOT NULL DEFAULT ' ',
    schemaname text NOT NULL DEFAULT ' ',
    tablename text NOT NULL,
    actions char(3) CONSTRAINT ${prefix}tables_actions CHECK (actions ~ '^[IUD]* *$'),
    status text NOT NULL DEFAULT 'CREATING' CONSTRAINT ${prefix}tables_status CHECK (status IN ('CREATING', 'OK')),
    repl_key bigint NOT NULL DEFAULT nextval($s$ ${schema}.${prefix}seq$s$::regclass),
    trigger_name text NOT NULL,
    debug integer NOT NULL DEFAULT 0 CONSTRAINT ${prefix}tables_debug CHECK (debug IN (0, 1)),
    CONSTRAINT ${prefix}tables_pkey PRIMARY KEY (catalogname, schemaname, tablename)
);

-- The replicated tables that existed at the last comparison. A name without a row here is a table that was created since;
-- a row without a table is one that was dropped. SCHEMANAME distinguishes tables of one name.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}current_tables (
    relname text NOT NULL,
    schemaname text NOT NULL,
    CONSTRAINT ${prefix}current_tables_pkey PRIMARY KEY (schemaname, relname)
);

-- Written by the function debug for tables with DEBUG = 1.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}debug_table (
    repl_key bigint NOT NULL DEFAULT nextval($s$ ${schema}.${prefix}seq$s$::regclass),
    line text
);

-- For vendors with LONG columns, which no trigger can read. PostgreSQL has none: the table stays empty.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}longs_table (
    repl_key bigint NOT NULL,
    content text,
    CONSTRAINT ${prefix}longs_table_pkey PRIMARY KEY (repl_key)
);

-- The stored structure with which COLS_VIEW (cols_view.sql) is compared: the structure for which the capture of each
-- table was generated.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}cols_table (
    schemaname text,
    tablename text,
    relid oid,
    attnum integer,
    attname text COLLATE "C",
    atttypid oid,
    atttype text,
    attnotnull boolean,
    attdefault text COLLATE "C",
    attidentity text,
    attgenerated text,
    attcollation text COLLATE "C",
    keypos integer,
    attmissing text
);

-- The capture of each registered table. MODE: by statement or by row triggers; none if nothing is captured; dropped if
-- the table was dropped. STEM is the beginning of the names of FUNCTIONS, and does not change when the table is renamed.
-- FINGERPRINT identifies the generated code, TRIGGER_FINGERPRINT that of the triggers, FILENODE the files of the table:
-- other files mean rewritten rows. SIGNATURE identifies the structure, BASIS everything from which the capture is
-- generated, LEAVES the partitions with the rows. REWRITTEN: rows that got other values by an ALTER are not queued yet.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}captures (
    schemaname text NOT NULL,
    tablename text NOT NULL,
    relid oid NOT NULL,
    mode text NOT NULL CHECK (mode IN ('statement', 'row', 'none', 'dropped')),
    stem text NOT NULL,
    triggers text[] NOT NULL,
    functions text[] NOT NULL,
    fingerprint text NOT NULL,
    trigger_fingerprint text NOT NULL,
    filenode text NOT NULL,
    signature text NOT NULL,
    basis text NOT NULL,
    leaves oid[] NOT NULL,
    rewritten boolean NOT NULL,
    CONSTRAINT ${prefix}captures_pkey PRIMARY KEY (schemaname, tablename)
);

INSERT INTO ${schema}.${prefix}info (name, value) VALUES ('version', '1') ON CONFLICT (name) DO NOTHING;
