-- Creates, checks and removes the capture of one table.
-- Called by: sluice.capture when it reconciles; structure.sql and ddl.sql when a table's structure changed.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema; to install a capture, TRIGGER on the table (not its ownership).
-- Oldest version: PostgreSQL 14.

-- What is wrong with a trigger; NULL when it is in place, enabled and calls its function.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}trigger_fault(p_relid oid, p_trigger text, p_function text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE
        WHEN g.oid IS NULL THEN format('trigger %I is missing', p_trigger)
        WHEN g.tgfoid IS DISTINCT FROM to_regprocedure(${schema}.${prefix}own(p_function) || '()')::oid
            THEN format('trigger %I does not call function %s', p_trigger, ${schema}.${prefix}own(p_function))
        WHEN g.tgenabled NOT IN ('O', 'A') THEN format('trigger %I is disabled', p_trigger)
        WHEN g.tgenabled = 'O' AND ${schema}.${prefix}origins() <> ARRAY['']
            THEN format('trigger %I does not fire for what is passed on', p_trigger)
        WHEN ${schema}.${prefix}is_inherited(p_relid, p_function) AND NOT has_function_privilege('public', g.tgfoid, 'EXECUTE')
            THEN format('nobody may make partitions with trigger %I', p_trigger)
    END
    FROM (VALUES (true)) AS one (row)
    LEFT JOIN pg_trigger g ON g.tgrelid = p_relid AND g.tgname = p_trigger AND NOT g.tgisinternal
$sluice$;

-- Tables whose rows may change without a trigger that sees it, and why.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}unseen(OUT schemaname text, OUT tablename text, OUT reason text) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    WITH tree AS (
        SELECT h.schemaname, h.tablename, h.triggers, r.relid FROM ${schema}.${prefix}captures h
        CROSS JOIN LATERAL unnest(h.relid || h.leaves) AS r (relid)
        WHERE h.mode NOT IN ('dropped', 'none')
    )
    SELECT DISTINCT ON (f.schemaname, f.tablename) f.schemaname, f.tablename, f.reason
    FROM (
        SELECT t.schemaname, t.tablename, format('%s is unlogged: a crash of the master empties it without a trace', c.oid::regclass)
        FROM tree t JOIN pg_class c ON c.oid = t.relid AND c.relpersistence <> 'p'
        UNION ALL
        SELECT t.schemaname, t.tablename, format('the subscription %I writes into it, which fires no trigger', s.subname)
        FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid JOIN tree t ON t.relid = r.srrelid
        UNION ALL
        SELECT t.schemaname, t.tablename, format('trigger %I is disabled', g.tgname)
        FROM pg_trigger g JOIN tree t ON t.relid = g.tgrelid AND g.tgname = ANY (t.triggers)
        WHERE g.tgenabled IN ('D', 'R')
        UNION ALL
        -- Rows of its partitions are captured under the name of the whole.
        SELECT t.schemaname, t.tablename,
            format('it has become a partition of %s, and its rows are captured under that name', pg_partition_root(c.oid))
        FROM tree t JOIN pg_class c ON c.oid = t.relid AND c.relkind = 'p' AND c.relispartition
    ) AS f (schemaname, tablename, reason)
    ORDER BY f.schemaname, f.tablename, f.reason
$sluice$;

-- Tells slaves by DIFFER, once, that rows of a table may have changed without a trigger: nothing tells which. A slave leaves
-- the table out until it is loaded again.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}tell_unseen() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT u.*, format('unseen %I.%I', u.schemaname, u.tablename) AS note FROM ${schema}.${prefix}unseen() u LOOP
        INSERT INTO ${schema}.${prefix}info AS i (name, value) VALUES (t.note, t.reason)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE i.value <> excluded.value;
        IF FOUND THEN
            PERFORM ${schema}.${prefix}ddl_item('DIFFER', t.schemaname, t.tablename, 'unseen: ' || t.reason, NULL);
        END IF;
    END LOOP;
    DELETE FROM ${schema}.${prefix}info i WHERE i.name LIKE 'unseen %' AND i.name NOT IN (
        SELECT format('unseen %I.%I', u.schemaname, u.tablename) FROM ${schema}.${prefix}unseen() u);
END
$sluice$;

-- All faults of the captures of registered tables, one row each.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_faults(OUT schemaname text, OUT tablename text, OUT fault text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t record;
BEGIN
    FOR t IN
        SELECT x.*, ${schema}.${prefix}relation(x.schemaname, x.tablename) AS now_relid,
               h.relid, h.mode, h.stem, h.basis, h.triggers, h.leaves, h.fingerprint
        FROM ${schema}.${prefix}tables x
        LEFT JOIN ${schema}.${prefix}captures h ON h.schemaname = x.schemaname AND h.tablename = x.tablename
        ORDER BY x.repl_key
    LOOP
        schemaname := t.schemaname;
        tablename := t.tablename;
        fault := CASE
            WHEN t.now_relid IS NULL THEN 'the table does not exist'
            WHEN t.relid IS NULL THEN 'no trigger was made yet'
            WHEN t.mode = 'dropped' OR t.relid <> t.now_relid THEN 'the table was made again'
            WHEN t.status <> 'OK' THEN format('status is %s', t.status)
        END;
        IF fault IS NOT NULL THEN
            RETURN NEXT;
            CONTINUE;
        END IF;
        -- The next comparison, in a moment, gives it functions of its own.
        CONTINUE WHEN t.fingerprint = '' AND t.triggers <> '{}';
        FOR fault IN
            SELECT ${schema}.${prefix}trigger_fault(g.target, g.name, t.stem || right(g.name, 2))
            -- Those that end in _p stand on the partitions, the others on the table.
            FROM (SELECT t.relid, name FROM unnest(t.triggers) AS n (name) WHERE right(name, 2) <> '_p'
                  UNION ALL SELECT leaf, name FROM unnest(t.triggers) AS n (name), unnest(t.leaves) AS l (leaf)
                  WHERE right(name, 2) = '_p' AND has_table_privilege(leaf, 'TRIGGER')) AS g (target, name)
        LOOP
            IF fault IS NOT NULL THEN
                RETURN NEXT;
            END IF;
        END LOOP;
        IF ${schema}.${prefix}basis(t.schemaname, t.tablename, ${schema}.${prefix}signature(t.relid)) <> t.basis THEN
            fault := 'the triggers are out of date';
            RETURN NEXT;
        END IF;
    END LOOP;
    -- A disabled trigger was named above.
    RETURN QUERY SELECT u.* FROM ${schema}.${prefix}unseen() u WHERE u.reason NOT LIKE 'trigger % is disabled';
END
$sluice$;

-- Grants PUBLIC the functions that partitions get (see check_code), and revokes all others.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}grant_execute(p_relid oid, p_function text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    inherited boolean := ${schema}.${prefix}is_inherited(p_relid, p_function);
    function regprocedure := to_regprocedure(${schema}.${prefix}identity(p_function));
BEGIN
    IF has_function_privilege('public', function, 'EXECUTE') <> inherited THEN
        EXECUTE format(CASE WHEN inherited THEN 'GRANT EXECUTE ON FUNCTION %s TO PUBLIC' ELSE 'REVOKE ALL ON FUNCTION %s FROM PUBLIC' END,
            function);
    END IF;
END
$sluice$;

-- The name of a capture function with the types of its parameters: others may have created functions of that name.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}identity(p_function text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT ${schema}.${prefix}own(p_function)
        || CASE right(p_function, 2) WHEN '_x' THEN '(record)' WHEN '_s' THEN '(record, boolean)' ELSE '()' END
$sluice$;

-- Creates one trigger, and tells the event triggers that it is Sluice's own work.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}make_trigger(p_code text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    PERFORM ${schema}.${prefix}note('capturing'::text);
    EXECUTE p_code;
    PERFORM ${schema}.${prefix}end_note('capturing'::text);
END
$sluice$;

-- Updates the capture of a registered table; returns what was done, NULL if nothing was. The table is locked against
-- writers only if a trigger must be created. With p_light nothing may be locked: if a lock is needed, nothing is done.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}create_trigger(p_schema text, p_table text, p_light boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    c record;
    had ${schema}.${prefix}captures;
    now ${schema}.${prefix}captures;
    target_of oid[] := '{}';
    function_codes text[] := '{}';
    trigger_codes text[] := '{}';
    trigger_names text[] := '{}';
    function_names text[] := '{}';
    done text[] := '{}';
BEGIN
    -- PostgreSQL lets two sessions that replace one function at once fail.
    SELECT * INTO had FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table FOR UPDATE;
    now := had;
    now.schemaname := p_schema;
    now.tablename := p_table;
    now.relid := ${schema}.${prefix}relation(p_schema, p_table);
    IF now.relid IS NULL THEN
        RAISE EXCEPTION 'Table %.% does not exist', quote_ident(p_schema), quote_ident(p_table) USING ERRCODE = 'undefined_table';
    END IF;
    now.mode := 'none';
    now.stem := coalesce(had.stem, '');
    FOR c IN SELECT * FROM ${schema}.${prefix}capture_code(p_schema, p_table) LOOP
        now.mode := c.mode;
        now.stem := left(c.functionname, -2);
        target_of := target_of || c.target;
        trigger_names := trigger_names || c.triggername;
        function_names := function_names || c.functionname;
        function_codes := function_codes || c.function_code;
        trigger_codes := trigger_codes || c.trigger_code;
    END LOOP;
    now.triggers := ARRAY(SELECT DISTINCT t FROM unnest(trigger_names) t WHERE t IS NOT NULL ORDER BY t);
    now.functions := ARRAY(SELECT DISTINCT f FROM unnest(function_names) f ORDER BY f);
    now.fingerprint := md5(array_to_string(function_codes || trigger_codes, ''));
    -- Without the table's name: a rename changes no trigger. Without those on the partitions: they are all alike, and to make
    -- one of the table's anew needs TRIGGER on each partition.
    now.trigger_fingerprint := md5(replace(array_to_string(ARRAY(
        SELECT u.code FROM unnest(target_of, trigger_codes) WITH ORDINALITY AS u (target, code, place)
        WHERE u.target = now.relid ORDER BY u.place), ''), format('%I.%I', p_schema, p_table), ''));
    now.filenode := ${schema}.${prefix}filenode(now.relid);
    now.signature := ${schema}.${prefix}signature(now.relid);
    now.basis := ${schema}.${prefix}basis(p_schema, p_table, now.signature);
    now.leaves := ${schema}.${prefix}leaves(now.relid);
    now.rewritten := coalesce(had.rewritten, false);
    IF p_light THEN
        IF had.trigger_fingerprint IS DISTINCT FROM now.trigger_fingerprint OR had.triggers IS DISTINCT FROM now.triggers THEN
            RETURN NULL;
        END IF;
        -- Triggers of partitions need a lock: those are left to the next comparison.
        IF now.leaves <> had.leaves OR split_part(now.filenode, ' ', 4) <> split_part(had.filenode, ' ', 4) THEN
            now.signature := had.signature;
            now.filenode := had.filenode;
        END IF;
        now.leaves := had.leaves;
    END IF;

    IF had.relid <> now.relid OR had.triggers <> now.triggers OR had.mode <> now.mode
        OR (had.stem <> now.stem AND had.functions <> '{}') THEN
        PERFORM ${schema}.${prefix}drop_trigger(p_schema, p_table);
        done := done || 'the former triggers removed'::text;
    END IF;
    FOR n IN 1 .. cardinality(trigger_names) LOOP
        IF had.fingerprint IS DISTINCT FROM now.fingerprint
            OR to_regprocedure(${schema}.${prefix}identity(function_names[n])) IS NULL THEN
            EXECUTE function_codes[n];
        END IF;
        PERFORM ${schema}.${prefix}grant_execute(now.relid, function_names[n]);
        CONTINUE WHEN target_of[n] IS NULL OR trigger_names[n] IS NULL OR (p_light AND target_of[n] <> now.relid);
        IF (target_of[n] = now.relid AND had.trigger_fingerprint IS DISTINCT FROM now.trigger_fingerprint)
            OR ${schema}.${prefix}trigger_fault(target_of[n], trigger_names[n], function_names[n]) IS NOT NULL THEN
            IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = target_of[n] AND g.tgname = trigger_names[n]
                       AND g.tgfoid IS DISTINCT FROM to_regprocedure(${schema}.${prefix}own(function_names[n]) || '()')
                       AND g.tgfoid <> to_regprocedure(${schema}.${prefix}own('capture_general_00000000_x') || '()')) THEN
                RAISE EXCEPTION 'Table %.% already has a trigger % that is not of prefix ${prefix}',
                    quote_ident(p_schema), quote_ident(p_table), quote_ident(trigger_names[n])
                    USING ERRCODE = 'duplicate_object', HINT = 'Configure another trigger name for this table.';
            END IF;
            PERFORM ${schema}.${prefix}expect_safe_key(p_schema, p_table, now.relid);
            IF ${schema}.${prefix}trigger_fault(target_of[n], trigger_names[n], function_names[n]) LIKE '%is disabled' THEN
                -- Before it is enabled again, after which nothing tells of it.
                PERFORM ${schema}.${prefix}tell_unseen();
            END IF;
            PERFORM ${schema}.${prefix}make_trigger(trigger_codes[n]);
            done := done || format('trigger %I made', trigger_names[n]);
        END IF;
    END LOOP;
    IF had.fingerprint IS DISTINCT FROM now.fingerprint THEN
        done := done || 'functions written'::text;
    END IF;

    IF now IS DISTINCT FROM had OR done <> '{}' THEN
        DELETE FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
        INSERT INTO ${schema}.${prefix}captures SELECT now.*;
    END IF;
    IF NOT p_light AND (had.relid IS NULL OR had.mode IN ('none', 'dropped') OR had.relid <> now.relid) THEN
        PERFORM ${schema}.${prefix}note_partitions(now.relid);
    END IF;
    PERFORM ${schema}.${prefix}remember(p_schema, p_table);
    IF had.tablename IS NULL AND now.triggers <> '{}' AND ${schema}.${prefix}no_rows(now.relid) THEN
        -- The triggers hold off writers, and no row was there before them.
        PERFORM ${schema}.${prefix}complete_item(p_schema, p_table);
    END IF;
    UPDATE ${schema}.${prefix}tables x SET status = 'OK'
        WHERE x.schemaname = p_schema AND x.tablename = p_table AND x.status <> 'OK';
    RETURN nullif(array_to_string(done, ', '), '');
END
$sluice$;

-- Whether a table, which is locked against writers, is known to be empty. A large file without rows is not searched,
-- since its writers wait. A snapshot older than the lock, or a policy, could hide rows.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}no_rows(p_relid oid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    leaf oid;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN false;
    END IF;
    FOREACH leaf IN ARRAY p_relid || ${schema}.${prefix}leaves(p_relid) LOOP
        IF pg_relation_size(leaf) > 16 * 1024 * 1024 OR ${schema}.${prefix}unreadable(leaf) IS NOT NULL
            OR NOT has_table_privilege(leaf, 'SELECT') THEN
            RETURN false;
        ELSIF ${schema}.${prefix}run_reading(format('SELECT FROM ONLY %s LIMIT 1', leaf::regclass)) > 0 THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END
$sluice$;

-- A fingerprint of everything on which the capture of a table depends; cheap enough to compare for every table
-- repeatedly.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}signature(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    signature text;
    told boolean := ${schema}.${prefix}has_event_triggers();
BEGIN
    EXECUTE 'SELECT ' || ${schema}.${prefix}signature_code(p_relid, false) INTO signature;
    RETURN concat_ws(' ', signature,
        (SELECT hash_record_extended(ROW(c.relname, c.relnamespace), 0) FROM pg_class c WHERE c.oid = p_relid),
        (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(
             ROW(i.indexrelid, i.indisunique, i.indisprimary, i.indisvalid, i.indimmediate), 0))), 0))
         FROM pg_index i WHERE i.indrelid = p_relid),
        (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(
             ROW(a.attnum, a.attidentity, a.attcollation,
                 CASE WHEN a.attcollation >= 16384 THEN ${schema}.${prefix}collation_name(a.attcollation) END), 0))), 0))
         FROM pg_attribute a WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped),
        (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(d.oid, d.adnum), 0))), 0)) FROM pg_attrdef d WHERE d.adrelid = p_relid),
        -- What is written of a value depends on what its type is made of, and a definition on what that is called.
        (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(
             ROW(y.atttypid, t.plain, t.exact, t.form, t.settings, p.names), 0))), 0))
         FROM (SELECT DISTINCT a.atttypid FROM pg_attribute a JOIN pg_type p ON p.oid = a.atttypid
               WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped
                 AND p.typnamespace <> 'pg_catalog'::regnamespace) y
         CROSS JOIN LATERAL ${schema}.${prefix}type_traits(y.atttypid) t
         CROSS JOIN LATERAL (
             SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(b.oid, b.typname, n.nspname), 0))), 0))
             FROM ${schema}.${prefix}type_parts(ARRAY[y.atttypid]) x
             JOIN pg_type b ON b.oid = x.oid JOIN pg_namespace n ON n.oid = b.typnamespace
         ) p (names)),
        (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(g.name, g.by_row, g.fires_after, g.may_write), 0))), 0))
         FROM ${schema}.${prefix}foreign_triggers(p_relid) g),
        (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(i.inhrelid, i.inhparent), 0))), 0)) FROM pg_inherits i
         WHERE i.inhrelid = p_relid OR i.inhparent = p_relid),
        -- The type of a column may be named again, and its values rewritten, without any other trace: event triggers tell.
        CASE WHEN NOT told THEN
            (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(
                 ROW(a.attnum, CASE WHEN age(a.xmin) > 0 THEN a.xmin::text END), 0))), 0)) FROM pg_attribute a
             WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped) END,
        -- So may a partition be detached, changed, and attached again.
        CASE WHEN NOT told THEN
            (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(i.inhrelid, i.xmin::text), 0))), 0))
             FROM ${schema}.${prefix}partition_tree(p_relid) t JOIN pg_inherits i ON i.inhrelid = t.relid) END,
        ${schema}.${prefix}leaves(p_relid), told);
END
$sluice$;

-- A fingerprint of everything from which a table's capture is generated: its configuration, the table's structure, the
-- release. p_signature: of the table.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}basis(p_schema text, p_table text, p_signature text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT md5(concat_ws('/', coalesce(t.actions, 'IUD'), t.trigger_name, t.debug, current_database(),
        (SELECT i.value FROM ${schema}.${prefix}info i WHERE i.name = 'functions'), ${schema}.${prefix}origins(),
        ${schema}.${prefix}account(), p_signature))
    FROM ${schema}.${prefix}tables t WHERE t.schemaname = p_schema AND t.tablename = p_table
$sluice$;
DROP FUNCTION IF EXISTS ${schema}.${prefix}basis(text, text, oid);

-- By what it is known later whether a table's rows were rewritten (is_rewritten): the cluster (key_base), the files of its rows,
-- including those of its partitions, and the transaction that wrote each column's row of the catalogue, as number:transaction;
-- 0 for this one or a later one, which may write it again without a trace.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}filenode(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT concat_ws(' ', ${schema}.${prefix}key_base(), CASE WHEN c.relkind = 'p'
        THEN (SELECT md5(coalesce(string_agg(pg_relation_filenode(l.leaf)::text, ',' ORDER BY l.leaf), ''))
              FROM unnest(${schema}.${prefix}leaves(p_relid)) AS l (leaf))
        ELSE coalesce(pg_relation_filenode(p_relid)::text, '-') END,
        (SELECT coalesce(string_agg(format('%s:%s', a.attnum, CASE WHEN age(a.xmin) > 0 THEN a.xmin ELSE '0' END), ',' ORDER BY a.attnum), '-')
         FROM pg_attribute a
         WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped),
        (SELECT string_agg(format('%s:%s', t.relid, t.attached), ',' ORDER BY t.relid) FROM ${schema}.${prefix}attachments(p_relid) t))
    FROM pg_class c WHERE c.oid = p_relid);
END
$sluice$;

-- Removes the capture of a table. Dropping Sluice's functions drops their triggers: dropping a trigger by name would need
-- ownership of the table.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}drop_trigger(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $sluice$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT unnest(x.functions) FROM ${schema}.${prefix}captures x
                WHERE x.schemaname = p_schema AND x.tablename = p_table LOOP
        EXECUTE format('DROP FUNCTION IF EXISTS %s CASCADE', ${schema}.${prefix}identity(name));
    END LOOP;
    DELETE FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
END
$sluice$;

-- Stores the present structure of a table in COLS_TABLE and CURRENT_TABLES.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}remember(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
BEGIN
    IF ${schema}.${prefix}describe(p_schema, p_table) IS NOT DISTINCT FROM ${schema}.${prefix}described(p_schema, p_table)
        AND NOT EXISTS (SELECT relid FROM ${schema}.${prefix}cols_table c WHERE c.schemaname = p_schema AND c.tablename = p_table
                        EXCEPT SELECT ${schema}.${prefix}relation(p_schema, p_table)) THEN
        RETURN;
    END IF;
    PERFORM ${schema}.${prefix}store(p_schema, p_table, ${schema}.${prefix}relation(p_schema, p_table));
END
$sluice$;

-- Stores it, whether it differs or not.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}store(p_schema text, p_table text, p_relid oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
BEGIN
    PERFORM ${schema}.${prefix}forget(p_schema, p_table);
    INSERT INTO ${schema}.${prefix}cols_table SELECT * FROM ${schema}.${prefix}cols_all v WHERE v.relid = p_relid;
    INSERT INTO ${schema}.${prefix}current_tables (schemaname, relname, enums)
        SELECT p_schema, p_table, ${schema}.${prefix}desc_enums(p_relid) || ${schema}.${prefix}desc_domains(p_relid)
            || ${schema}.${prefix}desc_types(p_relid)
        WHERE p_relid IS NOT NULL;
END
$sluice$;

-- Removes a table from COLS_TABLE and CURRENT_TABLES.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}forget(p_schema text, p_table text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    DELETE FROM ${schema}.${prefix}cols_table c WHERE c.schemaname = p_schema AND c.tablename = p_table;
    DELETE FROM ${schema}.${prefix}current_tables c WHERE c.schemaname = p_schema AND c.relname = p_table;
$sluice$;

-- Writes a DDL item, unless an apply made the change and it is not passed on. The key is drawn here, while the lock of
-- the change is held.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}ddl_item(
    p_action text, p_schema text, p_table text, p_content text, p_oldcontent text
) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    INSERT INTO ${schema}.${prefix}items (dbid, tablename, db_action, db_schema, content, oldcontent, version)
    SELECT coalesce(nullif(${schema}.${prefix}origin(), ''), current_database()), p_table, p_action, p_schema,
           p_content, p_oldcontent, '1'
    WHERE ${schema}.${prefix}origin() = ANY (${schema}.${prefix}origins())
$sluice$;

-- Writes a CREATE item which says that all rows of the table follow, so that every slave has it from the beginning.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}complete_item(p_schema text, p_table text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT ${schema}.${prefix}ddl_item('CREATE', p_schema, p_table,
        regexp_replace(${schema}.${prefix}describe(p_schema, p_table), '^<desc ', '<desc complete="true" '), NULL)
$sluice$;

-- Writes a CREATE item for a newly registered table: its changes follow from here on. Its existing rows do not follow, so
-- a slave leaves its changes out until it has loaded the table. A table that is no longer registered loses its capture;
-- there is no item for this, and no slave drops anything.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}tables_trigger() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM ${schema}.${prefix}partitions p USING ${schema}.${prefix}captures x
            WHERE x.schemaname = OLD.schemaname AND x.tablename = OLD.tablename AND p.relid = x.relid;
        PERFORM ${schema}.${prefix}drop_trigger(OLD.schemaname, OLD.tablename);
        PERFORM ${schema}.${prefix}forget(OLD.schemaname, OLD.tablename);
    ELSIF ${schema}.${prefix}relation(NEW.schemaname, NEW.tablename) IS NOT NULL THEN
        PERFORM ${schema}.${prefix}ddl_item('CREATE', NEW.schemaname, NEW.tablename,
            ${schema}.${prefix}describe(NEW.schemaname, NEW.tablename), NULL);
    END IF;
    RETURN NULL;
END
$sluice$;

CREATE OR REPLACE TRIGGER ${prefix}tables_created AFTER INSERT ON ${schema}.${prefix}tables
    FOR EACH ROW WHEN (NEW.status = 'CREATING') EXECUTE FUNCTION ${schema}.${prefix}tables_trigger();
CREATE OR REPLACE TRIGGER ${prefix}tables_deleted AFTER DELETE ON ${schema}.${prefix}tables
    FOR EACH ROW EXECUTE FUNCTION ${schema}.${prefix}tables_trigger();
-- Also fires for an account whose sessions have session_replication_role = replica: before PostgreSQL 15 that is a
-- slave's account, which may be a master's as well.
ALTER TABLE ${schema}.${prefix}tables ENABLE ALWAYS TRIGGER ${prefix}tables_created,
    ENABLE ALWAYS TRIGGER ${prefix}tables_deleted;
