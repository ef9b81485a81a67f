-- Finds out that the structure of replicated tables changed, writes the DDL items, and renews the captures.
-- Called by: the event triggers of ddl.sql in the transaction of the change itself; the apply's poll and housekeeping
--   (SELECT ${schema}.${prefix}check_structure()) where no event triggers could be made.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none.
-- Privileges: CREATE on the schema. Oldest version: PostgreSQL 14.
--
-- What a DDL item says to a slave:
--   CREATE  make the table of CONTENT unless there is one; nothing is dropped or emptied.
--   ALTER   make the table of OLDCONTENT (its schema and table attributes are its former name) look like CONTENT. Asking
--           twice does no harm. Rows whose values the change itself made anew follow as UPDATEs; of a table without a
--           key as TRUNCATE and INSERTs.
--   DROP    the table of OLDCONTENT is gone on the master. What the slave does with its own is its configuration's word.
-- A table that is renamed stays registered, under its new name.

-- Writes all rows of a table to ITEMS again: p_action INSERT for a table that begins with rows, UPDATE after its rows
-- were rewritten.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}recapture(p_schema text, p_table text, p_action text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off
AS $sluice$
DECLARE
    relid oid := to_regclass(format('%I.%I', p_schema, p_table));
    kind "char" := (SELECT c.relkind FROM pg_class c WHERE c.oid = relid);
    keyless boolean := NOT EXISTS (SELECT FROM ${schema}.${prefix}captured_columns(relid) WHERE keypos > 0);
    written bigint;
BEGIN
    IF p_action = 'UPDATE' AND keyless THEN
        PERFORM ${schema}.${prefix}ddl_item('TRUNCATE', p_schema, p_table, NULL, NULL);
        p_action := 'INSERT';
    END IF;
    EXECUTE format(
        'INSERT INTO %s (dbid, tablename, guid, db_action, db_schema, content, oldcontent, version)'
        ' SELECT %L, %L, %s, %L, %L, %s, %s, %L FROM %s %I.%I n',
        ${schema}.${prefix}own('items'), current_database(), p_table, ${schema}.${prefix}guid_code(relid, 'n'), p_action, p_schema,
        ${schema}.${prefix}content_code(relid, 'n'),
        CASE WHEN p_action = 'UPDATE' THEN ${schema}.${prefix}key_content_code(relid, 'n') ELSE 'NULL' END,
        '1', CASE WHEN kind = 'p' THEN '' ELSE 'ONLY' END, p_schema, p_table);
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$sluice$;

-- Whether the change from the snapshot to the structure now can have given rows other values: a column of another type,
-- or a new one whose values are not NULL and not the one value that the definition names.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}values_changed(p_schema text, p_table text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT EXISTS (
        SELECT FROM ${schema}.${prefix}cols_view v
        LEFT JOIN ${schema}.${prefix}cols_table c
            ON c.schemaname = p_schema AND c.tablename = p_table AND c.attnum = v.attnum
        WHERE v.schemaname = p_schema AND v.tablename = p_table AND v.attgenerated = ''
          AND (c.atttype <> v.atttype OR c.attgenerated <> ''
               OR (c.attnum IS NULL AND v.attmissing IS NULL AND (v.attdefault IS NOT NULL OR v.attidentity <> ''))))
$sluice$;

-- Compares one registered table with its snapshot and does what the difference asks for; what was found, NULL: nothing.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}check_table(p_schema text, p_table text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    had ${schema}.${prefix}captures;
    relid oid := to_regclass(format('%I.%I', p_schema, p_table));
    new_schema text;
    new_table text;
    old_desc text;
    new_desc text;
    rewritten boolean;
BEGIN
    SELECT * INTO had FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table FOR UPDATE;
    IF had.tablename IS NULL THEN
        RETURN NULL;  -- Being registered just now.
    END IF;
    old_desc := ${schema}.${prefix}described(p_schema, p_table);

    SELECT n.nspname, c.relname INTO new_schema, new_table
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = had.relid AND had.mode <> 'dropped';
    IF new_table IS NOT NULL AND had.relid IS DISTINCT FROM relid THEN
        PERFORM ${schema}.${prefix}rename(p_schema, p_table, new_schema, new_table, old_desc);
        RETURN format('renamed to %I.%I', new_schema, new_table);
    END IF;

    IF had.mode <> 'dropped' AND had.relid IS DISTINCT FROM relid THEN
        PERFORM ${schema}.${prefix}drop_trigger(p_schema, p_table);
        PERFORM ${schema}.${prefix}forget(p_schema, p_table);
        PERFORM ${schema}.${prefix}ddl_item('DROP', p_schema, p_table, NULL, old_desc);
        -- The row stays: a table of this name that comes again is captured again.
        UPDATE ${schema}.${prefix}tables x SET status = 'CREATING' WHERE x.schemaname = p_schema AND x.tablename = p_table;
        had.mode := 'dropped';
        had.triggers := '{}';
        had.functions := '{}';
        INSERT INTO ${schema}.${prefix}captures SELECT had.*;
        IF relid IS NULL THEN
            RETURN 'dropped';
        END IF;
    END IF;

    IF relid IS NULL THEN
        RETURN NULL;
    ELSIF had.mode = 'dropped' THEN
        IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relid AND c.relkind IN ('r', 'p')
                       AND c.relpersistence = 'p' AND NOT c.relispartition
                       AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'TRIGGER')) THEN
            -- Another object took the name, or privileges are lacking. Reconcile says so; the DDL must not fail for it.
            RETURN NULL;
        END IF;
        DELETE FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
        PERFORM ${schema}.${prefix}ddl_item('CREATE', p_schema, p_table, ${schema}.${prefix}describe(p_schema, p_table), NULL);
        PERFORM ${schema}.${prefix}create_trigger(p_schema, p_table);
        -- Rows that came before the trigger. Its making holds off writers, so none comes in between.
        PERFORM ${schema}.${prefix}recapture(p_schema, p_table, 'INSERT');
        RETURN 'created';
    END IF;

    new_desc := ${schema}.${prefix}describe(p_schema, p_table);
    -- The value of old rows counts only when its column is new: a rewrite of the table writes it into the rows.
    IF regexp_replace(new_desc, ' missing="[^"]*"', '', 'g') = regexp_replace(old_desc, ' missing="[^"]*"', '', 'g') THEN
        IF ${schema}.${prefix}filenode(relid) <> had.filenode
            OR ${schema}.${prefix}capture_fingerprint(p_schema, p_table) <> had.fingerprint THEN
            RETURN ${schema}.${prefix}create_trigger(p_schema, p_table);
        END IF;
        RETURN NULL;
    END IF;
    rewritten := ${schema}.${prefix}filenode(relid) <> had.filenode AND ${schema}.${prefix}values_changed(p_schema, p_table);
    PERFORM ${schema}.${prefix}ddl_item('ALTER', p_schema, p_table, new_desc, old_desc);
    PERFORM ${schema}.${prefix}create_trigger(p_schema, p_table);
    IF rewritten THEN
        PERFORM ${schema}.${prefix}hold_off_writers(p_schema, p_table);
        PERFORM ${schema}.${prefix}recapture(p_schema, p_table, 'UPDATE');
    END IF;
    RETURN CASE WHEN rewritten THEN 'altered and rewritten' ELSE 'altered' END;
END
$sluice$;

-- Keeps a table's writers out until the transaction ends, with no other right than TRIGGER.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}hold_off_writers(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    code text;
BEGIN
    FOR code IN SELECT c.trigger_code FROM ${schema}.${prefix}capture_code(p_schema, p_table) c LIMIT 1 LOOP
        EXECUTE code;
    END LOOP;
END
$sluice$;

-- Follows a table to its new name: registration, snapshot, capture, and one ALTER item under the old name.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}rename(
    p_schema text, p_table text, p_new_schema text, p_new_table text, p_old_desc text
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF EXISTS (SELECT FROM ${schema}.${prefix}tables x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table) THEN
        -- Whatever had the name before has no longer: settle that first.
        PERFORM ${schema}.${prefix}check_table(p_new_schema, p_new_table);
        DELETE FROM ${schema}.${prefix}tables x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
    END IF;
    UPDATE ${schema}.${prefix}tables x SET schemaname = p_new_schema, tablename = p_new_table
        WHERE x.schemaname = p_schema AND x.tablename = p_table;
    UPDATE ${schema}.${prefix}captures x SET schemaname = p_new_schema, tablename = p_new_table
        WHERE x.schemaname = p_schema AND x.tablename = p_table;
    PERFORM ${schema}.${prefix}forget(p_schema, p_table);
    PERFORM ${schema}.${prefix}ddl_item('ALTER', p_schema, p_table,
        ${schema}.${prefix}describe(p_new_schema, p_new_table), p_old_desc);
    PERFORM ${schema}.${prefix}create_trigger(p_new_schema, p_new_table);
END
$sluice$;

-- Checks every registered table, or those of p_relids only; how many had changed. One session does this at a time;
-- another that comes meanwhile leaves it to the first.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}check_structure(p_relids oid[] DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t record;
    changed integer := 0;
BEGIN
    FOR t IN
        SELECT x.schemaname, x.tablename FROM ${schema}.${prefix}tables x
        JOIN ${schema}.${prefix}captures h ON h.schemaname = x.schemaname AND h.tablename = x.tablename
        WHERE p_relids IS NULL OR h.relid = ANY (p_relids)
           OR to_regclass(format('%I.%I', x.schemaname, x.tablename)) = ANY (p_relids)
        ORDER BY x.repl_key
    LOOP
        IF ${schema}.${prefix}check_table(t.schemaname, t.tablename) IS NOT NULL THEN
            changed := changed + 1;
        END IF;
    END LOOP;
    RETURN changed;
END
$sluice$;
