-- Finds changes of the structure of replicated tables, writes the DDL items, and renews the captures.
-- Called by: the event triggers of ddl.sql in the transaction of the change itself; the apply's poll and housekeeping
--   (SELECT ${schema}.${prefix}check_structure()), for changes that fire no event trigger.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.
--
-- What a slave does with a DDL item:
--   CREATE  The table of CONTENT is captured from here on. With complete="true" all of its rows follow: create it unless it
--           exists; nothing is dropped or emptied. Otherwise load it before changes of it are applied.
--   ALTER   Change the table of OLDCONTENT (its schema and table attributes are its former name) to CONTENT. Doing this
--           twice does no harm. Rows whose values the statement changed follow as UPDATEs; rows of a table without a key, or
--           whose keys may have changed, as TRUNCATE and INSERTs.
--   DELETE WHERE  Delete the rows that match a condition: their partition was removed (partition_bound in partitions.sql).
--   DIFFER  Report to a person that the table differs from here on; CONTENT has the reason. It is unknown what changed.
--   DROP    The table of OLDCONTENT was dropped on the master. The slave's configuration decides about its own.
-- A renamed table stays registered, under its new name. CAPTURES remembers its former name like that of a dropped table,
-- without a row in TABLES: another table that takes the name is captured like one that was dropped and created again. For
-- later names that nobody configured, only the first name is remembered; its RELID there is that of the table.

-- Queues all rows of a table, or those that match p_where, or those of p_from, a present or former partition. p_action is
-- INSERT for rows that came without a trigger, DELETE for removed rows, UPDATE for rewritten rows, REPLACE for those whose keys
-- may be others.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}recapture(
    p_schema text, p_table text, p_action text, p_from oid DEFAULT NULL, p_where text DEFAULT 'true'
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off
AS $sluice$
DECLARE
    relid oid := ${schema}.${prefix}relation(p_schema, p_table);
    kind "char" := (SELECT c.relkind FROM pg_class c WHERE c.oid = relid);
    columns ${schema}.${prefix}captured_column[] := ${schema}.${prefix}columns_of(relid);
    keyless boolean := NOT EXISTS (SELECT FROM unnest(columns) c WHERE c.keypos > 0);
    -- A partition that may not be read is read by way of its table; otherwise not, as that locks the table as well.
    by_table boolean := p_from = ANY (${schema}.${prefix}leaves(relid)) AND NOT has_table_privilege(p_from, 'SELECT');
    -- Changes that other statements made after the rewrite may come first (insertion_code).
    version text := CASE WHEN p_action IN ('UPDATE', 'REPLACE') THEN '2' ELSE '1' END;
    reason text;
BEGIN
    IF ${schema}.${prefix}origin() <> ALL (${schema}.${prefix}origins()) THEN
        RETURN 0;  -- The change was replicated to here; its rows come by themselves.
    END IF;
    reason := CASE WHEN by_table AND ${schema}.${prefix}bound_is_harmless(relid, ${schema}.${prefix}rows_of_leaf(p_from)) IS NOT TRUE
        THEN 'the rows of a partition of it cannot be told from others'
        ELSE ${schema}.${prefix}unreadable(CASE WHEN by_table THEN relid ELSE coalesce(p_from, relid) END) END;
    IF reason IS NOT NULL THEN
        PERFORM ${schema}.${prefix}differ_once(p_schema, p_table, reason);
        RETURN 0;
    ELSIF p_action = 'REPLACE' OR (p_action = 'UPDATE' AND keyless) THEN
        PERFORM ${schema}.${prefix}ddl_item('TRUNCATE', p_schema, p_table, NULL, NULL);
        p_action := 'INSERT';
    END IF;
    RETURN ${schema}.${prefix}run_reading(format(
        'INSERT INTO %s (dbid, tablename, guid, db_action, db_schema, content, oldcontent, version)'
        ' SELECT %s, %L, %s, %L, %L, %s, %s, %L FROM %s %s n %s',
        ${schema}.${prefix}own('items'), ${schema}.${prefix}dbid_code(), p_table, ${schema}.${prefix}guid_code(columns, 'n', NULL, false), p_action, p_schema,
        CASE WHEN p_action = 'DELETE' THEN 'NULL' ELSE ${schema}.${prefix}content_code(columns, 'n', '') END,
        -- Of a rewritten row nobody knows the former values.
        CASE WHEN p_action = 'DELETE' THEN ${schema}.${prefix}content_code(columns, 'n', '') ELSE 'NULL' END,
        version, CASE WHEN kind = 'p' THEN '' ELSE 'ONLY' END, coalesce(CASE WHEN NOT by_table THEN p_from END, relid)::regclass,
        'WHERE ' || CASE WHEN by_table THEN format('n.tableoid = %s AND %s', p_from, ${schema}.${prefix}rows_of_leaf(p_from))
            ELSE p_where END));
END
$sluice$;

DROP FUNCTION IF EXISTS ${schema}.${prefix}values_changed(text, text);

-- Whether a column of a rewritten table's key may have got other values since p_had was stored: by its old key a slave would not
-- find the row.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}is_rekeyed(p_relid oid, p_had text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT split_part(${schema}.${prefix}filenode(p_relid), ' ', 1) = split_part(p_had, ' ', 1) AND EXISTS (
        SELECT FROM ${schema}.${prefix}cols_all v
        JOIN pg_attribute a ON a.attrelid = v.relid AND a.attnum = v.attnum
        JOIN regexp_matches(split_part(p_had, ' ', 3), '(\d+):(\d+)', 'g') AS m ON m[1]::integer = v.attnum
        WHERE v.relid = p_relid AND v.keypos > 0 AND a.xmin <> m[2]::xid)
$sluice$;

-- Whether a change of the structure may have given rows other values since p_had (filenode) was stored: it rewrote a column,
-- or added one whose values are neither NULL nor the one value in the definition.
--   ALTER … TYPE … USING may leave the definition as it was, and a default may be gone by now. So what counts is that the
--   table has other files, that somebody has written the column's row of the catalogue, and that no row of the table is older
--   than that: TRUNCATE, CLUSTER and VACUUM FULL also make other files, long before the next change perhaps, and leave rows
--   their transactions. Event triggers tell of a rewritten column (ddl_rewrite): then only a type or default counts here.
--   p_light: as of check_table; nothing is read.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}is_rewritten(
    p_schema text, p_table text, p_relid oid, p_had text, p_light boolean
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    now text := ${schema}.${prefix}filenode(p_relid);
    -- Ages, in transactions, of the oldest change of a column that may have rewritten the rows, and of one that probably did.
    possible integer;
    probable integer;
    leaf oid;
BEGIN
    -- Another cluster, after pg_upgrade, has written all of its catalogue.
    IF split_part(now, ' ', 1) <> split_part(p_had, ' ', 1) OR split_part(now, ' ', 2) = split_part(p_had, ' ', 2) THEN
        RETURN false;
    END IF;
    SELECT max(x.age), max(x.age) FILTER (WHERE x.probable) INTO possible, probable
    FROM (
        SELECT age(a.xmin), CASE WHEN w.attnum IS NULL
                THEN v.attdefault IS NOT NULL OR v.attidentity <> ''
                    -- A domain may have a default of its own.
                    OR EXISTS (SELECT FROM pg_type y WHERE y.oid = v.atttypid AND y.typdefault IS NOT NULL)
                ELSE c.atttype <> v.atttype OR c.attgenerated <> '' END AS probable
        FROM ${schema}.${prefix}cols_all v
        JOIN pg_attribute a ON a.attrelid = v.relid AND a.attnum = v.attnum
        LEFT JOIN ${schema}.${prefix}cols_table c ON c.schemaname = p_schema AND c.tablename = p_table AND c.attnum = v.attnum
        LEFT JOIN (SELECT m[1]::integer, m[2]::xid FROM regexp_matches(split_part(p_had, ' ', 3), '(\d+):(\d+)', 'g') AS m)
            AS w (attnum, written) ON w.attnum = v.attnum
        WHERE v.relid = p_relid AND v.attgenerated = '' AND a.xmin IS DISTINCT FROM w.written
          AND (w.attnum IS NOT NULL OR v.attmissing IS NULL)
    ) x;
    IF ${schema}.${prefix}has_event_triggers()
        AND NOT EXISTS (SELECT FROM ${schema}.${prefix}info i WHERE i.name ^@ format('left %I.%I ', p_schema, p_table)) THEN
        possible := probable;
    END IF;
    IF possible IS NULL OR p_light THEN
        RETURN possible IS NOT NULL;
    END IF;
    FOREACH leaf IN ARRAY CASE WHEN ${schema}.${prefix}leaves(p_relid) = '{}' THEN ARRAY[p_relid] ELSE ${schema}.${prefix}leaves(p_relid) END LOOP
        IF NOT has_table_privilege(leaf, 'SELECT') OR ${schema}.${prefix}unreadable(leaf) IS NOT NULL THEN
            RETURN probable IS NOT NULL;
        -- A transaction that began after this one has a negative age; so has one of more than two billion ago.
        ELSIF ${schema}.${prefix}run_reading(format(
            'SELECT FROM ONLY %s n WHERE age(n.xmin) > %s OR age(n.xmin) < -1000000000 LIMIT 1', leaf::regclass, possible)) > 0 THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END
$sluice$;

-- Compares a registered table with its stored structure, and does what the difference requires. Returns what was found;
-- NULL: nothing. p_light: called from a statement of the application; nothing may lock the table. p_in_ddl: called from
-- an event trigger, in the transaction of the change. p_simple: the change concerns no trigger, type or inheritance.
--   Nothing waits for another transaction of the application: what this transaction and another one both change in
--   CAPTURES is left to the next comparison.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}check_table(
    p_schema text, p_table text, p_light boolean DEFAULT false, p_in_ddl boolean DEFAULT false, p_simple boolean DEFAULT false
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
-- The application's session may have any settings; definitions and code are compared as text.
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    had ${schema}.${prefix}captures;
    relid oid := ${schema}.${prefix}relation(p_schema, p_table);
    new_schema text;
    new_table text;
    old_desc text;
    new_desc text;
    first_name ${schema}.${prefix}captures;
    altered boolean;
    moved boolean;
BEGIN
    IF p_in_ddl THEN
        -- Only a comparison can hold it, for a moment: other DDL on this table has ended.
        SELECT * INTO had FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table FOR UPDATE;
    ELSE
        SELECT * INTO had FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table
            FOR UPDATE SKIP LOCKED;
    END IF;
    IF had.tablename IS NULL THEN
        RETURN NULL;  -- Being registered just now, or another transaction does the same.
    END IF;
    IF NOT p_light AND NOT p_in_ddl AND had.mode <> 'dropped' AND EXISTS (
        SELECT FROM pg_class c WHERE c.oid = had.relid AND has_table_privilege(c.oid, 'SELECT')
            AND has_schema_privilege(c.relnamespace, 'USAGE')) THEN
        -- The definition is read, then its item gets a key: a newer definition, which a statement of the application tells of, must
        -- not come in between, or the item would take it back. Writers are not held off.
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS SHARE MODE', had.relid::regclass);
    END IF;
    old_desc := ${schema}.${prefix}described(p_schema, p_table);
    IF had.mode <> 'dropped' AND NOT had.rewritten AND EXISTS (SELECT FROM pg_class c WHERE c.oid = had.relid)
        AND ${schema}.${prefix}is_rewritten(p_schema, p_table, had.relid, had.filenode, p_light) THEN
        -- Noted before anything else stores what the table has now.
        had.rewritten := true;
        UPDATE ${schema}.${prefix}captures x SET rewritten = true WHERE x.schemaname = p_schema AND x.tablename = p_table;
    END IF;
    IF NOT p_light AND NOT p_in_ddl THEN
        DELETE FROM ${schema}.${prefix}info i WHERE i.name ^@ format('left %I.%I ', p_schema, p_table);
    END IF;
    IF had.rewritten AND ${schema}.${prefix}is_rekeyed(had.relid, had.filenode) THEN
        INSERT INTO ${schema}.${prefix}info (name, value) VALUES ('rekeyed ' || had.relid, '') ON CONFLICT (name) DO NOTHING;
    END IF;

    IF had.mode = 'dropped' OR NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = had.relid) THEN
        SELECT x.schemaname, x.tablename INTO new_schema, new_table FROM ${schema}.${prefix}captures x
        WHERE x.relid = ${schema}.${prefix}relation(p_schema, p_table) AND x.mode <> 'dropped'
          AND (x.schemaname, x.tablename) <> (p_schema, p_table);
        IF new_table IS NOT NULL THEN
            -- A registered table took the name.
            RETURN ${schema}.${prefix}check_table(new_schema, new_table, p_light, p_in_ddl);
        END IF;
    END IF;

    SELECT n.nspname, c.relname INTO new_schema, new_table
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = had.relid AND had.mode <> 'dropped';
    IF new_table IS NOT NULL AND had.relid IS DISTINCT FROM relid THEN
        IF NOT ${schema}.${prefix}rename(p_schema, p_table, new_schema, new_table, old_desc, p_light) THEN
            RETURN NULL;
        END IF;
        RETURN format('renamed to %I.%I', new_schema, new_table);
    END IF;

    IF had.mode <> 'dropped' AND had.relid IS DISTINCT FROM relid THEN
        DELETE FROM ${schema}.${prefix}partitions p WHERE p.relid = had.relid;
        IF p_light OR p_in_ddl THEN
            -- The next comparison drops the functions, which others' event triggers would see here.
            DELETE FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
        ELSE
            PERFORM ${schema}.${prefix}drop_trigger(p_schema, p_table);
            had.functions := '{}';
        END IF;
        PERFORM ${schema}.${prefix}forget(p_schema, p_table);
        PERFORM ${schema}.${prefix}ddl_item('DROP', p_schema, p_table, NULL, old_desc);
        SELECT * INTO first_name FROM ${schema}.${prefix}captures h
        WHERE h.relid = had.relid AND h.mode = 'dropped' AND NOT EXISTS (
            SELECT FROM ${schema}.${prefix}tables x WHERE x.schemaname = h.schemaname AND x.tablename = h.tablename);
        IF first_name.tablename IS NOT NULL THEN
            -- It was renamed before: the registration goes back to the name that was configured.
            UPDATE ${schema}.${prefix}tables x
                SET schemaname = first_name.schemaname, tablename = first_name.tablename, status = 'CREATING'
                WHERE x.schemaname = p_schema AND x.tablename = p_table;
            PERFORM ${schema}.${prefix}check_table(first_name.schemaname, first_name.tablename, p_light, p_in_ddl);
            RETURN 'dropped';
        END IF;
        -- The row stays: a table of this name that comes again is captured again.
        UPDATE ${schema}.${prefix}tables x SET status = 'CREATING' WHERE x.schemaname = p_schema AND x.tablename = p_table;
        had.mode := 'dropped';
        had.triggers := '{}';
        had.leaves := '{}';
        INSERT INTO ${schema}.${prefix}captures SELECT had.*;
        IF relid IS NULL THEN
            RETURN 'dropped';
        END IF;
    END IF;

    IF had.mode = 'dropped' AND had.functions <> '{}' AND NOT p_light AND NOT p_in_ddl THEN
        PERFORM ${schema}.${prefix}drop_trigger(p_schema, p_table);
        had.functions := '{}';
        INSERT INTO ${schema}.${prefix}captures SELECT had.*;
    END IF;
    IF relid IS NULL OR (had.mode = 'dropped' AND p_light) THEN
        RETURN NULL;
    ELSIF had.mode = 'dropped' THEN
        IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relid AND c.relkind IN ('r', 'p')
                       AND c.relpersistence = 'p' AND NOT c.relispartition
                       AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'TRIGGER')) THEN
            -- Another object took the name, or privileges are lacking. Reconcile says so; the DDL must not fail for it.
            RETURN NULL;
        END IF;
        IF NOT EXISTS (SELECT FROM ${schema}.${prefix}tables x WHERE x.schemaname = p_schema AND x.tablename = p_table) THEN
            -- The name of a table that was renamed: what is configured for that one holds for this one.
            INSERT INTO ${schema}.${prefix}tables (schemaname, tablename, actions, status, repl_key, trigger_name, debug)
            SELECT p_schema, p_table, t.actions, 'OK', k.key, '${prefix}' || k.key, t.debug
            FROM ${schema}.${prefix}captures h
            JOIN ${schema}.${prefix}tables t ON t.schemaname = h.schemaname AND t.tablename = h.tablename
            CROSS JOIN (SELECT ${schema}.${prefix}next_key() AS key) k
            WHERE h.relid = had.relid
            LIMIT 1;
            IF NOT FOUND THEN
                -- That one is no longer registered.
                DELETE FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
                RETURN NULL;
            END IF;
        END IF;
        UPDATE ${schema}.${prefix}captures x SET rewritten = false WHERE x.schemaname = p_schema AND x.tablename = p_table;
        BEGIN
            PERFORM ${schema}.${prefix}complete_item(p_schema, p_table);
            IF NOT (p_in_ddl AND ${schema}.${prefix}capture_generally(p_schema, p_table)) THEN
                PERFORM ${schema}.${prefix}create_trigger(p_schema, p_table);
            END IF;
        EXCEPTION WHEN OTHERS THEN
            -- The owner made it impossible: that must not fail his statement, and the next comparison tells.
            IF NOT p_in_ddl OR left(SQLSTATE, 2) IN ('40', '53', '54', '57', '58', 'XX') THEN
                RAISE;
            END IF;
            RETURN NULL;
        END;
        -- Rows that came before the trigger. Its making holds off writers, so none comes in between.
        IF NOT p_in_ddl OR pg_relation_size(relid) > 0 THEN
            PERFORM ${schema}.${prefix}recapture(p_schema, p_table, 'INSERT');
        END IF;
        RETURN 'created';
    END IF;

    IF p_in_ddl AND EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = ANY (relid || had.leaves)
                            AND g.tgname = ANY (had.triggers) AND g.tgenabled IN ('D', 'R')) THEN
        RAISE WARNING 'The triggers that capture %.% are disabled: no slave gets what changes until they are enabled again',
            quote_ident(p_schema), quote_ident(p_table)
            USING HINT = 'Afterwards start an initial update of the table: slaves leave it out from here on.';
        -- In this transaction: they may be enabled again before anybody looks.
        PERFORM ${schema}.${prefix}tell_unseen();
    END IF;
    IF p_in_ddl AND EXISTS (SELECT FROM pg_class c WHERE c.oid = relid AND c.relkind = 'p' AND c.relispartition) THEN
        PERFORM ${schema}.${prefix}tell_unseen();
    END IF;
    new_desc := ${schema}.${prefix}describe(p_schema, p_table);
    -- The value of old rows counts only when its column is new: a rewrite of the table writes it into the rows.
    altered := regexp_replace(new_desc, ' missing="[^"]*"', '', 'g') <> regexp_replace(old_desc, ' missing="[^"]*"', '', 'g');
    IF altered THEN
        -- To rename a label locks no table: a row that a session writes under the former name must not follow the item.
        IF NOT p_light AND EXISTS (
            SELECT FROM regexp_matches(old_desc, '<label id="(\d+)">([^<]*)<', 'g') o
            JOIN regexp_matches(new_desc, '<label id="(\d+)">([^<]*)<', 'g') n ON n[1] = o[1] AND n[2] <> o[2]) THEN
            IF p_in_ddl THEN
                PERFORM ${schema}.${prefix}try_hold_off_writers(p_schema, p_table);
            ELSE
                PERFORM ${schema}.${prefix}hold_off_writers(p_schema, p_table);
            END IF;
        END IF;
        PERFORM ${schema}.${prefix}ddl_item('ALTER', p_schema, p_table, new_desc, old_desc);
    END IF;
    IF NOT p_light AND NOT p_in_ddl THEN
        -- First, as it locks the table before its partitions. A writer does so, too: in the other order either could wait
        -- for the other. (In DDL the statement itself has locked the partitions.)
        moved := ${schema}.${prefix}follow_partitions(p_schema, p_table, relid, false);
    END IF;
    IF (p_light OR (p_in_ddl AND p_simple)) AND had.mode = 'statement'
        AND ${schema}.${prefix}is_single(relid) AND (p_light OR NOT altered OR ${schema}.${prefix}shape_differs(p_schema, p_table, relid)) THEN
        IF altered OR p_light THEN
            PERFORM ${schema}.${prefix}capture_late(p_schema, p_table, relid);
        END IF;
    ELSIF altered OR ${schema}.${prefix}signature(relid) <> had.signature THEN
        PERFORM ${schema}.${prefix}renew_capture(p_schema, p_table, relid, p_light, p_in_ddl);
        IF NOT p_light AND NOT p_in_ddl AND had.mode = 'statement'
            AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = relid OR i.inhparent = relid) THEN
            -- Until now statements that name the parent fired its triggers alone, for rows of both. The new ones hold off writers.
            IF pg_relation_size(relid) > 64 * 1024 * 1024 THEN
                PERFORM ${schema}.${prefix}differ_once(p_schema, p_table, 'it inherits or has heirs since a moment, and changes '
                    'that statements about its parent made until that was noticed are unknown');
            ELSE
                PERFORM ${schema}.${prefix}recapture(p_schema, p_table, 'REPLACE');
            END IF;
        END IF;
    ELSIF p_in_ddl AND NOT had.rewritten THEN
        RETURN NULL;  -- The command may have locked an index alone, and the table must not be waited for.
    END IF;
    IF p_in_ddl AND NOT p_light THEN
        moved := ${schema}.${prefix}follow_partitions(p_schema, p_table, relid, true);
    END IF;
    IF had.rewritten AND NOT p_light THEN
        IF NOT p_in_ddl THEN
            PERFORM ${schema}.${prefix}hold_off_writers(p_schema, p_table);
        END IF;
        DELETE FROM ${schema}.${prefix}info i WHERE i.name = 'rekeyed ' || relid;
        PERFORM ${schema}.${prefix}recapture(p_schema, p_table, CASE WHEN FOUND THEN 'REPLACE' ELSE 'UPDATE' END);
        UPDATE ${schema}.${prefix}captures x SET rewritten = false, filenode = ${schema}.${prefix}filenode(x.relid)
            WHERE x.schemaname = p_schema AND x.tablename = p_table;
        RETURN 'altered and rewritten';
    END IF;
    RETURN CASE WHEN altered THEN 'altered' WHEN moved THEN 'partitions changed' END;
END
$sluice$;

-- check_table in a statement of the application. A transaction whose snapshot is older than what a comparison stored of the
-- table cannot change that. Its statement does not fail for it: a note leaves the table to the next comparison.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}check_or_leave(
    p_schema text, p_table text, p_light boolean DEFAULT false, p_in_ddl boolean DEFAULT false, p_simple boolean DEFAULT false
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        RETURN ${schema}.${prefix}check_table(p_schema, p_table, p_light, p_in_ddl, p_simple);
    END IF;
    BEGIN
        RETURN ${schema}.${prefix}check_table(p_schema, p_table, p_light, p_in_ddl, p_simple);
    EXCEPTION WHEN serialization_failure THEN
        PERFORM ${schema}.${prefix}note(format('left %I.%I', p_schema, p_table));
    END;
    BEGIN
        -- Triggers that are disabled may be enabled again before that comparison.
        PERFORM ${schema}.${prefix}tell_unseen();
    EXCEPTION WHEN serialization_failure THEN
        NULL;  -- A comparison tells of them just now.
    END;
    RETURN NULL;
END
$sluice$;

-- In a statement of the application: queues the ALTER item of a table that is no longer as its capture was generated for.
-- If another session does the same and has not committed, the item is written twice, so that it precedes the rows whichever
-- commits first.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}tell_late(p_relid oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    had ${schema}.${prefix}captures;
    missing CONSTANT text := ' missing="[^"]*"';
BEGIN
    SELECT * INTO had FROM ${schema}.${prefix}captures x WHERE x.relid = p_relid AND x.mode <> 'dropped';
    IF had.tablename IS NULL OR (had.relid IS NOT DISTINCT FROM ${schema}.${prefix}relation(had.schemaname, had.tablename)
        AND (had.signature = ${schema}.${prefix}late_signature(p_relid) OR ${schema}.${prefix}signature(p_relid) = had.signature)) THEN
        RETURN;  -- It was told already, or what differs is not the structure: this account may not use the schema.
    END IF;
    IF ${schema}.${prefix}check_or_leave(had.schemaname, had.tablename, p_light => true) IS NULL
        AND regexp_replace(${schema}.${prefix}describe_relation(p_relid), missing, '', 'g')
            <> regexp_replace(${schema}.${prefix}described(had.schemaname, had.tablename), missing, '', 'g') THEN
        -- Another transaction does the same, and has not ended, or this one's snapshot is older. Once in this one.
        INSERT INTO ${schema}.${prefix}info (name, value)
            VALUES (format('told %s %s %s', p_relid, md5(${schema}.${prefix}describe_relation(p_relid)), pg_current_xact_id()), '')
            ON CONFLICT (name) DO NOTHING;
        IF FOUND THEN
            PERFORM ${schema}.${prefix}ddl_item('ALTER', had.schemaname, had.tablename,
                ${schema}.${prefix}describe_relation(p_relid), ${schema}.${prefix}described(had.schemaname, had.tablename));
        END IF;
    END IF;
END
$sluice$;

-- For a statement, or a row (p_by_row: NEW is $1, OLD the next one), that found another structure than its capture
-- function was generated for: does what is possible without locks, and returns the statement that captures its rows, with
-- output functions only, whatever the types are. p_from: the table of the trigger, perhaps a partition.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}late_code(p_relid oid, p_from oid, p_event text, p_by_row boolean) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    now_schema text;
    now_table text;
    told oid;
BEGIN
    IF NOT EXISTS (SELECT FROM ${schema}.${prefix}captures x WHERE x.relid = p_relid AND x.mode <> 'dropped')
        OR (p_from <> p_relid AND pg_partition_root(p_from) IS DISTINCT FROM p_relid::regclass) THEN
        RETURN 'SELECT';
    END IF;
    -- An older snapshot sees an older definition. Columns and their names are asked for of PostgreSQL's caches, which do not.
    IF current_setting('transaction_isolation') <> 'read committed' AND (
        EXISTS (SELECT FROM pg_class c CROSS JOIN generate_series(c.relnatts + 1, 1600) AS n
                WHERE c.oid = p_relid AND has_column_privilege(p_relid, n::int2, 'SELECT') IS NOT NULL)
        OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped
                   AND (pg_identify_object_as_address('pg_class'::regclass, p_relid, a.attnum)).object_names[3] <> a.attname)) THEN
        RAISE serialization_failure USING MESSAGE = 'The table was altered after this transaction took its snapshot',
            HINT = 'Try the transaction again.';
    END IF;
    SELECT n.nspname, c.relname INTO now_schema, now_table
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_relid;
    -- A value of another table's row type must not come before the definition of that one.
    FOREACH told IN ARRAY ${schema}.${prefix}composite_types(p_relid, '{r,p}') || p_relid LOOP
        PERFORM ${schema}.${prefix}tell_late(told);
    END LOOP;
    IF p_event = 'BEFORE' THEN
        RETURN 'SELECT';
    END IF;
    RETURN ${schema}.${prefix}insertion_code(now_schema, now_table, ${schema}.${prefix}columns_of(p_relid), p_event, 'n', 'o')
        || CASE WHEN NOT p_by_row THEN ${schema}.${prefix}transition_code(p_relid, p_event)
            WHEN p_event = 'DELETE' THEN ' FROM (SELECT ($1).*) o'
            WHEN p_event = 'INSERT' THEN ' FROM (SELECT ($1).*) n'
            ELSE ' FROM (SELECT ($1).*) n CROSS JOIN (SELECT ($2).*) o' END;
END
$sluice$;

-- Whether a table has no partitions, parents or heirs, and no trigger for which it must be captured by row.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}is_single(p_relid oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN ${schema}.${prefix}capture_mode(p_relid, false) = 'statement'
        AND NOT EXISTS (SELECT FROM ${schema}.${prefix}foreign_triggers(p_relid) g WHERE g.may_write);
END
$sluice$;

-- Whether names or types of the captured columns differ from the stored ones and nothing else does that the code depends
-- on: then capture functions notice the change by themselves (fitting), and their rows are captured by late_code.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}shape_differs(p_schema text, p_table text, p_relid oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT bool_and((v.attnum IS NULL OR c.attnum IS NULL AND v.keypos = 0)
                   OR (v.attnotnull, v.keypos, v.attgenerated) IS NOT DISTINCT FROM (c.attnotnull, c.keypos, c.attgenerated))
               AND (bool_or(((v.attname, v.atttypid) IS DISTINCT FROM (c.attname, c.atttypid)))
                    OR bool_and(v.atttype IS NOT DISTINCT FROM c.atttype))
        FROM (SELECT * FROM ${schema}.${prefix}cols_all v WHERE v.relid = p_relid) v
        FULL JOIN (SELECT * FROM ${schema}.${prefix}cols_table c WHERE c.schemaname = p_schema AND c.tablename = p_table) c
            ON c.attnum = v.attnum);
END
$sluice$;

-- What late_code compares to see whether a change was told, or rows were rewritten.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}late_signature(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    columns text;
BEGIN
    EXECUTE 'SELECT ' || ${schema}.${prefix}signature_code(p_relid, false) INTO columns;
    RETURN concat_ws(' ', 'late', columns, (SELECT md5(string_agg(format('%s %s %s', i.indexrelid, i.indisprimary, i.indisvalid), ' '
            ORDER BY i.indexrelid)) FROM pg_index i WHERE i.indrelid = p_relid AND i.indisunique),
        split_part(${schema}.${prefix}filenode(p_relid), ' ', 2));
END
$sluice$;

-- In the application's transaction: stores the present structure, and leaves the capture functions to the next comparison.
-- Until then late_code captures the rows of statements for which they do not fit.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_late(p_schema text, p_table text, p_relid oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    PERFORM ${schema}.${prefix}store(p_schema, p_table, p_relid);
    UPDATE ${schema}.${prefix}captures x
        SET signature = ${schema}.${prefix}late_signature(p_relid), fingerprint = '', filenode = ${schema}.${prefix}filenode(p_relid)
        WHERE x.schemaname = p_schema AND x.tablename = p_table;
END
$sluice$;

-- Makes triggers and functions anew where they must change. In a statement of the application nothing of this may fail:
-- what its own event triggers forbid, or something else of the table, waits for the next comparison.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}renew_capture(
    p_schema text, p_table text, p_relid oid, p_light boolean, p_in_ddl boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF NOT p_in_ddl THEN
        PERFORM ${schema}.${prefix}create_trigger(p_schema, p_table, p_light);
        RETURN;
    END IF;
    BEGIN
        PERFORM ${schema}.${prefix}create_trigger(p_schema, p_table, p_light);
    EXCEPTION WHEN OTHERS THEN
        -- Conflicts, lack of resources, and what an administrator or the server ends.
        IF left(SQLSTATE, 2) IN ('40', '53', '54', '57', '58', 'XX') THEN
            RAISE;
        END IF;
        PERFORM ${schema}.${prefix}capture_late(p_schema, p_table, p_relid);
    END;
END
$sluice$;

-- In the transaction that creates a table: captures it by triggers over one general function. The next comparison replaces
-- it by functions of the table's own. Returns false for a table that needs row triggers.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_generally(p_schema text, p_table text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    this oid := ${schema}.${prefix}relation(p_schema, p_table);
    t ${schema}.${prefix}tables;
    event text;
    names text[] := '{}';
BEGIN
    SELECT * INTO t FROM ${schema}.${prefix}tables x WHERE x.schemaname = p_schema AND x.tablename = p_table;
    IF NOT ${schema}.${prefix}is_single(this) OR t.actions = '' OR ${schema}.${prefix}origins() <> ARRAY['']
        OR EXISTS (SELECT FROM ${schema}.${prefix}foreign_triggers(this)) THEN
        RETURN false;
    END IF;
    FOREACH event IN ARRAY ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'] LOOP
        CONTINUE WHEN t.actions IS NOT NULL
            AND position(CASE event WHEN 'TRUNCATE' THEN 'D' ELSE left(event, 1) END IN t.actions) = 0;
        names := names || (t.trigger_name || '_' || lower(left(event, 1)));
        PERFORM ${schema}.${prefix}make_trigger(${schema}.${prefix}trigger_code(names[cardinality(names)], 'AFTER ' || event,
            format('%I.%I', p_schema, p_table), CASE WHEN event = 'TRUNCATE' THEN '' ELSE 'REFERENCING '
                || CASE WHEN event IN ('UPDATE', 'DELETE') THEN 'OLD TABLE AS sluice_old ' ELSE '' END
                || CASE WHEN event IN ('UPDATE', 'INSERT') THEN 'NEW TABLE AS sluice_new ' ELSE '' END END
            || 'FOR EACH STATEMENT', ${schema}.${prefix}own('capture_general_00000000_x')));
    END LOOP;
    UPDATE ${schema}.${prefix}captures x
        SET relid = this, mode = 'statement', triggers = ARRAY(SELECT n FROM unnest(names) AS u (n) ORDER BY n),
            fingerprint = '', trigger_fingerprint = '', basis = '', leaves = '{}', rewritten = false
        WHERE x.schemaname = p_schema AND x.tablename = p_table;
    PERFORM ${schema}.${prefix}capture_late(p_schema, p_table, this);
    UPDATE ${schema}.${prefix}tables x SET status = 'OK' WHERE x.schemaname = p_schema AND x.tablename = p_table AND x.status <> 'OK';
    RETURN true;
END
$sluice$;

-- The function of those triggers. It does nothing once the table has functions of its own.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_general_00000000_x() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
BEGIN
    IF ${schema}.${prefix}origin() = ANY (${schema}.${prefix}origins()) AND EXISTS (
        SELECT FROM ${schema}.${prefix}captures x WHERE x.relid = TG_RELID AND x.mode <> 'dropped' AND x.trigger_fingerprint = '') THEN
        EXECUTE ${schema}.${prefix}late_code(TG_RELID, TG_RELID, TG_OP, false);
    END IF;
    RETURN NULL;
END
$sluice$;
REVOKE ALL ON FUNCTION ${schema}.${prefix}capture_general_00000000_x() FROM PUBLIC;

-- Blocks a table's writers until the transaction ends; needs only the privilege TRIGGER.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}hold_off_writers(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    code text;
BEGIN
    FOR code IN SELECT c.trigger_code FROM ${schema}.${prefix}capture_code(p_schema, p_table) c WHERE c.trigger_code IS NOT NULL LIMIT 1 LOOP
        PERFORM ${schema}.${prefix}expect_safe_key(p_schema, p_table, ${schema}.${prefix}relation(p_schema, p_table));
        PERFORM ${schema}.${prefix}make_trigger(code);
    END LOOP;
END
$sluice$;

-- The same, in a statement of the application, which must neither fail for it nor wait long.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}try_hold_off_writers(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms'
AS $sluice$
BEGIN
    PERFORM ${schema}.${prefix}hold_off_writers(p_schema, p_table);
EXCEPTION WHEN OTHERS THEN
    NULL;  -- A writer that does not end, or a query of this very session that reads the table.
END
$sluice$;

-- Follows a renamed table: registration, stored structure, capture, and one ALTER item with the old name. Returns false
-- if another transaction holds the registration that the new name has. If another
-- registered table had the new name before, that one gets a temporary unused name, so that names which were swapped
-- between two comparisons can be followed.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}rename(
    p_schema text, p_table text, p_new_schema text, p_new_table text, p_old_desc text, p_light boolean
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    this oid;
    other ${schema}.${prefix}captures;
    other_desc text;
    aside text;
    -- Whose the new name was before, if that one was renamed away from it.
    left_by oid;
BEGIN
    SELECT x.relid INTO this FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
    SELECT * INTO other FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table
        FOR UPDATE SKIP LOCKED;
    IF other.tablename IS NULL AND EXISTS (
        SELECT FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table) THEN
        RETURN false;
    END IF;
    IF NOT EXISTS (SELECT FROM ${schema}.${prefix}tables x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table) THEN
        left_by := other.relid;
        DELETE FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
    ELSE
        other_desc := ${schema}.${prefix}described(p_new_schema, p_new_table);
        IF other.mode <> 'dropped' AND EXISTS (SELECT FROM pg_class c WHERE c.oid = other.relid) THEN
            aside := 'sluice_renamed_' || other.relid;
            UPDATE ${schema}.${prefix}tables x SET tablename = aside WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
            UPDATE ${schema}.${prefix}captures x SET tablename = aside WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
            UPDATE ${schema}.${prefix}cols_table x SET tablename = aside WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
            UPDATE ${schema}.${prefix}current_tables x SET relname = aside WHERE x.schemaname = p_new_schema AND x.relname = p_new_table;
            PERFORM ${schema}.${prefix}ddl_item('ALTER', p_new_schema, p_new_table,
                ${schema}.${prefix}described(p_new_schema, aside), other_desc);
        ELSE
            IF other.mode <> 'dropped' THEN
                PERFORM ${schema}.${prefix}ddl_item('DROP', p_new_schema, p_new_table, NULL, other_desc);
            END IF;
            DELETE FROM ${schema}.${prefix}tables x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
        END IF;
    END IF;

    UPDATE ${schema}.${prefix}tables x SET schemaname = p_new_schema, tablename = p_new_table
        WHERE x.schemaname = p_schema AND x.tablename = p_table;
    UPDATE ${schema}.${prefix}captures x SET schemaname = p_new_schema, tablename = p_new_table
        WHERE x.schemaname = p_schema AND x.tablename = p_table;
    PERFORM ${schema}.${prefix}forget(p_schema, p_table);
    PERFORM ${schema}.${prefix}ddl_item('ALTER', p_schema, p_table,
        ${schema}.${prefix}describe(p_new_schema, p_new_table), p_old_desc);
    IF p_light AND EXISTS (SELECT FROM ${schema}.${prefix}captures x WHERE x.relid = this AND x.mode = 'statement')
        AND ${schema}.${prefix}is_single(this) THEN
        PERFORM ${schema}.${prefix}capture_late(p_new_schema, p_new_table, this);
    ELSE
        PERFORM ${schema}.${prefix}renew_capture(p_new_schema, p_new_table, this, p_light, true);
        -- Also of a table that cannot be captured now, such as a partition: its next item says what it was.
        PERFORM ${schema}.${prefix}remember(p_new_schema, p_new_table);
    END IF;

    -- The name that was left, unless it was not the first or the table is back.
    IF p_table <> 'sluice_renamed_' || this AND this IS DISTINCT FROM left_by
        AND NOT EXISTS (SELECT FROM ${schema}.${prefix}captures x WHERE x.relid = this AND x.mode = 'dropped') THEN
        -- The table that left the new name, taken now, may be made again under this one. Functions are named after the
        -- first name of their table: another stem.
        INSERT INTO ${schema}.${prefix}captures (schemaname, tablename, relid, mode, stem, triggers, functions, fingerprint,
            trigger_fingerprint, filenode, signature, basis, leaves, rewritten)
        VALUES (p_schema, p_table, coalesce(left_by, this), 'dropped',
            ${schema}.${prefix}free_stem(p_schema, p_table), '{}', '{}', '', '', '', '', '', '{}', false);
    END IF;
    IF aside IS NOT NULL THEN
        PERFORM ${schema}.${prefix}check_table(p_new_schema, aside, p_light);
    END IF;
    IF ${schema}.${prefix}relation(p_schema, p_table) IS NOT NULL THEN
        PERFORM ${schema}.${prefix}check_table(p_schema, p_table, p_light);
    END IF;
    RETURN true;
END
$sluice$;

-- The registered tables that differ from their stored structure, in the order of loading.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}structure_changed(OUT schemaname text, OUT tablename text) RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    left_by_statements text[] := ARRAY(  -- check_or_leave
        SELECT regexp_replace(i.name, ' \d+$', '') FROM ${schema}.${prefix}info i WHERE i.name ^@ 'left ');
BEGIN
    RETURN QUERY
        SELECT h.schemaname, h.tablename FROM ${schema}.${prefix}captures h
        LEFT JOIN ${schema}.${prefix}tables x ON x.schemaname = h.schemaname AND x.tablename = h.tablename
        WHERE CASE WHEN h.mode = 'dropped' THEN h.functions <> '{}' OR ${schema}.${prefix}relation(h.schemaname, h.tablename) IS NOT NULL
            ELSE h.rewritten OR h.relid IS DISTINCT FROM ${schema}.${prefix}relation(h.schemaname, h.tablename)
                OR format('left %I.%I', h.schemaname, h.tablename) = ANY (left_by_statements)
                OR ${schema}.${prefix}signature(h.relid) <> h.signature
                OR ${schema}.${prefix}partitions_changed(h.relid) END
        ORDER BY x.repl_key;
END
$sluice$;

-- Tells by DIFFER, once, that a table cannot be followed, and why. NULL: it can be again.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}refused(p_schema text, p_table text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    note text := format('refused %I.%I', p_schema, p_table);
BEGIN
    IF p_reason IS NULL THEN
        DELETE FROM ${schema}.${prefix}info i WHERE i.name = note;
        RETURN;
    END IF;
    INSERT INTO ${schema}.${prefix}info AS i (name, value) VALUES (note, p_reason)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE i.value <> excluded.value;
    IF FOUND THEN
        PERFORM ${schema}.${prefix}ddl_item('DIFFER', p_schema, p_table, p_reason, NULL);
    END IF;
END
$sluice$;

-- Checks one registered table; returns whether it has changed. What its owner refuses, or made impossible, concerns this
-- table alone. A table that is busy for longer than p_wait milliseconds is left to the next call, because waiting for its lock blocks
-- its writers.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}check_alone(p_schema text, p_table text, p_wait integer DEFAULT 500)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    changed boolean;
BEGIN
    -- In a deadlock with DDL of the application this transaction gives way first.
    PERFORM set_config('lock_timeout', least(p_wait, greatest(s.setting::integer / 2, 1)) || 'ms', true)
        FROM pg_settings s WHERE s.name = 'deadlock_timeout';
    BEGIN
        -- One comparison at a time: tables that exchanged their names concern several registrations.
        PERFORM FROM ${schema}.${prefix}info i WHERE i.name = 'version' FOR NO KEY UPDATE;
        changed := ${schema}.${prefix}check_table(p_schema, p_table) IS NOT NULL;
    EXCEPTION WHEN lock_not_available THEN
        RAISE WARNING '%.% is being written to, its change of structure waits', p_schema, p_table;
        RETURN false;
    WHEN OTHERS THEN
        -- Conflicts, lack of resources, and what an administrator or the server ends.
        IF left(SQLSTATE, 2) NOT IN ('40', '53', '54', '55', '57', '58', 'XX') THEN
            PERFORM ${schema}.${prefix}refused(p_schema, p_table, SQLERRM);
        END IF;
        RAISE WARNING '%.% cannot be compared: %', p_schema, p_table, SQLERRM;
        RETURN false;
    END;
    PERFORM ${schema}.${prefix}refused(p_schema, p_table, NULL);
    RETURN changed;
END
$sluice$;

-- Checks all of them in one transaction, by hand and after an upgrade. Returns how many have changed. The apply and
-- housekeeping call check_alone in a transaction for each table, so that no lock is held while another is waited for.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}check_structure() RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms'
AS $sluice$
DECLARE
    t record;
    changed integer := 0;
BEGIN
    PERFORM ${schema}.${prefix}forget_notes();
    PERFORM ${schema}.${prefix}tell_unseen();
    FOR t IN SELECT * FROM ${schema}.${prefix}structure_changed() LOOP
        -- The locks of those that changed are held meanwhile.
        changed := changed + ${schema}.${prefix}check_alone(t.schemaname, t.tablename,
            CASE WHEN changed > 0 THEN 10 ELSE 500 END)::integer;
    END LOOP;
    RETURN changed;
END
$sluice$;
