-- Generates and installs the capture of one table: functions with its columns written out, and their triggers.
-- Called by: sluice.install when it reconciles; structure.sql and ddl.sql when a table's structure changed.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none.
-- Privileges: CREATE on the schema; to install a capture, TRIGGER on the table (not its ownership).
-- Oldest version: PostgreSQL 14.
--
-- Statement triggers read the transition tables of a whole statement at once, at a third of the cost of a row
-- trigger. A table that inherits, has heirs or partitions, or has row triggers of the application, gets row triggers:
-- transition tables would miss rows there, or see them after the application's triggers changed them again.

-- The triggers a table needs now, with the code of each and of its function. No row: nothing to capture.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_code(
    p_schema text, p_table text,
    OUT relid oid, OUT mode text, OUT event text, OUT triggername text, OUT functionname text,
    OUT function_code text, OUT trigger_code text
)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t ${schema}.${prefix}tables;
    target text := format('%I.%I', p_schema, p_table);
    stem text;
    keyless boolean;
    row_new text;
    row_old text;
    values_code text;
    source text;
    referencing text;
    settings text;
    -- Changes that the apply of another replication writes are not captured again. A statement trigger asks in its
    -- function, because a WHEN clause is parsed anew for every statement; a row trigger asks in a WHEN clause,
    -- because that spares the call for every row.
    not_ours text := $s$(coalesce(pg_catalog.current_setting('sluice.origin', true), '') OPERATOR(pg_catalog.<>) '')$s$;
    by_row boolean;
    insertion text;
    declarations text;
    tail text;
BEGIN
    SELECT * INTO t FROM ${schema}.${prefix}tables x WHERE x.schemaname = p_schema AND x.tablename = p_table;
    relid := to_regclass(target);
    IF t.tablename IS NULL OR relid IS NULL OR t.actions = '' THEN
        RETURN;
    END IF;
    mode := ${schema}.${prefix}capture_mode(relid);
    stem := coalesce(
        (SELECT x.stem FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table),
        'capture_' || left(regexp_replace(lower(p_table), '[^a-z0-9]', '_', 'g'), 12)
            || '_' || left(md5('${prefix}' || target), 8));
    keyless := NOT EXISTS (SELECT FROM ${schema}.${prefix}captured_columns(relid) WHERE keypos > 0);
    SELECT coalesce(string_agg(format(' SET %I TO %s', s, CASE s
            WHEN 'DateStyle' THEN quote_literal('ISO, YMD') WHEN 'TimeZone' THEN quote_literal('UTC')
            WHEN 'IntervalStyle' THEN quote_literal('postgres') WHEN 'extra_float_digits' THEN '1'
            WHEN 'bytea_output' THEN quote_literal('hex') WHEN 'lc_monetary' THEN quote_literal('C')
            WHEN 'search_path' THEN 'pg_catalog, pg_temp' WHEN 'quote_all_identifiers' THEN 'off' END), '' ORDER BY s), '')
        INTO settings
        FROM (SELECT DISTINCT unnest(x.settings) FROM ${schema}.${prefix}captured_columns(relid) x) AS u (s);

    FOREACH event IN ARRAY ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'] LOOP
        -- TRUNCATE removes rows: it is captured where deletes are.
        CONTINUE WHEN t.actions IS NOT NULL
            AND position(CASE event WHEN 'TRUNCATE' THEN 'D' ELSE left(event, 1) END IN t.actions) = 0;
        triggername := t.trigger_name || '_' || lower(left(event, 1));
        by_row := mode = 'row' AND event <> 'TRUNCATE';
        functionname := stem || '_' || lower(left(event, 1));
        IF mode = 'statement' THEN
            row_new := 'n';
            row_old := 'o';
        ELSE
            row_new := 'NEW';
            row_old := 'OLD';
        END IF;
        values_code := CASE event
            WHEN 'INSERT' THEN format('%s, %L, %L, %s, NULL', ${schema}.${prefix}guid_code(relid, row_new), event, p_schema,
                ${schema}.${prefix}content_code(relid, row_new))
            WHEN 'UPDATE' THEN format('%s, %L, %L, %s, %s', ${schema}.${prefix}guid_code(relid, row_new, row_old), event, p_schema,
                ${schema}.${prefix}content_code(relid, row_new), ${schema}.${prefix}oldcontent_code(relid, row_new, row_old))
            WHEN 'DELETE' THEN format('%s, %L, %L, NULL, %s', ${schema}.${prefix}guid_code(relid, row_old), event, p_schema,
                ${schema}.${prefix}content_code(relid, row_old))
            ELSE format('NULL, %L, %L, NULL, NULL', event, p_schema)
        END;
        referencing := '';
        source := '';
        insertion := format(
            E'    INSERT INTO %s (dbid, tablename, guid, db_action, db_schema, content, oldcontent, version)\n'
            '    SELECT %L, %L, %s, %L', ${schema}.${prefix}own('items'), current_database(), p_table, values_code, '1');
        declarations := '';
        IF mode = 'statement' AND event <> 'TRUNCATE' THEN
            referencing := CASE event
                WHEN 'INSERT' THEN ' REFERENCING NEW TABLE AS sluice_new'
                WHEN 'DELETE' THEN ' REFERENCING OLD TABLE AS sluice_old'
                ELSE ' REFERENCING OLD TABLE AS sluice_old NEW TABLE AS sluice_new' END;
            source := CASE event
                WHEN 'INSERT' THEN ' FROM sluice_new n'
                WHEN 'DELETE' THEN ' FROM sluice_old o'
                ELSE E'\n    FROM sluice_old o CROSS JOIN sluice_new n'
                    '\n    WHERE NOT EXISTS (SELECT FROM sluice_new OFFSET 1)' END;
        END IF;
        tail := '';
        IF mode = 'statement' AND event = 'UPDATE' THEN
            tail := E'    IF NOT FOUND AND EXISTS (SELECT FROM sluice_new) THEN\n'
                || ${schema}.${prefix}lockstep_code(relid, insertion) || E'    END IF;\n';
            declarations := E'DECLARE\n    old_rows refcursor;\n    new_rows refcursor;\n    taken bigint;\n';
        END IF;
        IF t.debug = 1 THEN
            tail := tail || format(E'    PERFORM %s(pg_catalog.concat(%L, pg_catalog.pg_current_xact_id(), %L, session_user));\n',
                ${schema}.${prefix}own('debug'),
                event || ' ' || target || ' (' || mode || ' trigger) in transaction ', ' by ');
        END IF;
        function_code := format(
            'CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER%s AS %L',
            ${schema}.${prefix}own(functionname), settings || CASE WHEN event = 'UPDATE' AND settings NOT LIKE '% SET search_path %'
                THEN ' SET search_path TO pg_catalog, pg_temp' ELSE '' END,
            format(E'\n#variable_conflict use_column\n%sBEGIN\n%s%s%s;\n%s    RETURN NULL;\nEND\n',
                declarations, CASE WHEN by_row THEN '' ELSE E'    IF ' || not_ours || E' THEN\n        RETURN NULL;\n    END IF;\n' END,
                insertion, source, tail));
        trigger_code := format(
            'CREATE OR REPLACE TRIGGER %I AFTER %s ON %s%s FOR EACH %s'
            '%s EXECUTE FUNCTION %s()',
            triggername, event, target, referencing, CASE WHEN by_row THEN 'ROW' ELSE 'STATEMENT' END,
            CASE WHEN by_row THEN ' WHEN (NOT ' || not_ours || ')' ELSE '' END, ${schema}.${prefix}own(functionname));
        RETURN NEXT;
    END LOOP;
END
$sluice$;

-- Hands on the next rows of an open cursor, so that two cursors can be read side by side in one FROM.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}next_rows(p_cursor refcursor, p_count integer) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN QUERY EXECUTE format('FETCH FORWARD %s FROM %I', p_count, p_cursor);
END
$sluice$;

-- The code that pairs the rows of an update of many rows. Both transition tables list the rows in the order in which
-- the statement changed them, a row that it changed twice included (a foreign key to the same table can do that), so
-- reading them side by side pairs old and new whatever happened to the keys, and keeps REPL_KEY in that order.
-- A join over row numbers does the same at twice the cost; only it has room for more than 800 columns.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}lockstep_code(p_relid oid, p_insertion text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    WITH listed AS (
        SELECT count(*) AS number,
            string_agg(quote_ident(c.attname), ', ' ORDER BY n) AS names,
            string_agg(format('c%s %s', n, c.atttype), ', ' ORDER BY n) AS types,
            string_agg('o' || n, ', ' ORDER BY n) AS old, string_agg('n' || n, ', ' ORDER BY n) AS new,
            string_agg(format('x.o%s AS %I', n, c.attname), ', ' ORDER BY n) AS old_as,
            string_agg(format('x.n%s AS %I', n, c.attname), ', ' ORDER BY n) AS new_as
        FROM ${schema}.${prefix}captured_columns(p_relid) WITH ORDINALITY AS
            c (attname, opening, atttype, nullable, keypos, plain, exact, direct, settings, n)
    )
    SELECT CASE WHEN number BETWEEN 1 AND 800 THEN
        format(E'        OPEN old_rows NO SCROLL FOR SELECT %s FROM sluice_old;\n', names)
        || format(E'        OPEN new_rows NO SCROLL FOR SELECT %s FROM sluice_new;\n', names)
        || E'        LOOP\n' || p_insertion
        || E'\n    FROM ROWS FROM (\n'
        || format(E'        %s(old_rows, 10000) AS (%s),\n', ${schema}.${prefix}own('next_rows'), types)
        || format(E'        %s(new_rows, 10000) AS (%s)\n    ) AS x (%s, %s)\n', ${schema}.${prefix}own('next_rows'), types, old, new)
        || format(E'    CROSS JOIN LATERAL (SELECT %s) AS o\n    CROSS JOIN LATERAL (SELECT %s) AS n;\n', old_as, new_as)
        || E'            GET DIAGNOSTICS taken = ROW_COUNT;\n'
           '            EXIT WHEN taken OPERATOR(pg_catalog.<) 10000;\n        END LOOP;\n'
           '        CLOSE old_rows;\n        CLOSE new_rows;\n'
    ELSE
        p_insertion || E'\n    FROM (SELECT *, pg_catalog.row_number() OVER () AS sluice_row FROM sluice_old) o\n'
           '    FULL JOIN (SELECT *, pg_catalog.row_number() OVER () AS sluice_row FROM sluice_new) n\n'
           '    ON n.sluice_row OPERATOR(pg_catalog.=) o.sluice_row ORDER BY n.sluice_row;\n'
    END
    FROM listed
$sluice$;

-- How the changes of a table can be captured: 'statement' or 'row'.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_mode(p_relid oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE
        WHEN c.relkind = 'p' OR c.relispartition
            OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = p_relid OR i.inhparent = p_relid)
            OR EXISTS (SELECT FROM pg_trigger g
                       WHERE g.tgrelid = p_relid AND NOT g.tgisinternal AND g.tgtype & 1 = 1 AND g.tgtype & 2 = 0
                         AND NOT EXISTS (SELECT FROM ${schema}.${prefix}captures x, unnest(x.functions) f (name)
                                         WHERE x.relid = p_relid
                                           AND g.tgfoid = to_regprocedure(${schema}.${prefix}own(f.name) || '()')))
        THEN 'row' ELSE 'statement' END
    FROM pg_class c WHERE c.oid = p_relid
$sluice$;

-- What is wrong with a trigger; NULL when it is in place, enabled and calls its function.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}trigger_fault(p_relid oid, p_trigger text, p_function text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE
        WHEN g.oid IS NULL THEN format('trigger %I is missing', p_trigger)
        WHEN g.tgfoid IS DISTINCT FROM to_regprocedure(${schema}.${prefix}own(p_function) || '()')::oid
            THEN format('trigger %I does not call function %s', p_trigger, ${schema}.${prefix}own(p_function))
        WHEN g.tgenabled NOT IN ('O', 'A') THEN format('trigger %I is disabled', p_trigger)
    END
    FROM (VALUES (true)) AS one (row)
    LEFT JOIN pg_trigger g ON g.tgrelid = p_relid AND g.tgname = p_trigger AND NOT g.tgisinternal
$sluice$;

-- Identifies the code of a table's capture as it would be generated now.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_fingerprint(p_schema text, p_table text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT md5(coalesce(string_agg(c.function_code, '' ORDER BY n), '') || coalesce(string_agg(c.trigger_code, '' ORDER BY n), ''))
    FROM ${schema}.${prefix}capture_code(p_schema, p_table) WITH ORDINALITY
        AS c (relid, mode, event, triggername, functionname, function_code, trigger_code, n)
$sluice$;

-- Everything that is wrong with the captures of the registered tables, one row a fault.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_faults(OUT schemaname text, OUT tablename text, OUT fault text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t record;
    c record;
BEGIN
    FOR t IN
        SELECT x.*, to_regclass(format('%I.%I', x.schemaname, x.tablename))::oid AS now_relid,
               h.relid, h.fingerprint, h.triggers
        FROM ${schema}.${prefix}tables x
        LEFT JOIN ${schema}.${prefix}captures h ON h.schemaname = x.schemaname AND h.tablename = x.tablename
        ORDER BY x.repl_key
    LOOP
        schemaname := t.schemaname;
        tablename := t.tablename;
        IF t.now_relid IS NULL THEN
            fault := 'the table does not exist';
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF t.relid IS DISTINCT FROM t.now_relid THEN
            fault := CASE WHEN t.relid IS NULL THEN 'no trigger was made yet' ELSE 'the table was made again' END;
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF t.status <> 'OK' THEN
            fault := format('status is %s', t.status);
            RETURN NEXT;
        END IF;
        FOR c IN SELECT * FROM ${schema}.${prefix}capture_code(t.schemaname, t.tablename) LOOP
            fault := ${schema}.${prefix}trigger_fault(t.relid, c.triggername, c.functionname);
            IF fault IS NOT NULL AND c.triggername = ANY (t.triggers) THEN
                RETURN NEXT;
            END IF;
        END LOOP;
        IF ${schema}.${prefix}capture_fingerprint(t.schemaname, t.tablename) <> t.fingerprint THEN
            fault := 'the triggers are out of date';
            RETURN NEXT;
        END IF;
    END LOOP;
END
$sluice$;

-- Brings the capture of a registered table up to date; returns what was done, NULL when nothing had to be.
-- The table is locked against writers only when a trigger must be made.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}create_trigger(p_schema text, p_table text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    c record;
    n integer;
    had ${schema}.${prefix}captures;
    now ${schema}.${prefix}captures;
    function_codes text[] := '{}';
    trigger_codes text[] := '{}';
    done text[] := '{}';
BEGIN
    -- Tells the event triggers that what follows is our own work. Not by a SET clause of the function: an account that is
    -- no superuser may give none for a parameter of ours.
    PERFORM set_config('sluice.capturing', '${prefix}', true);
    SELECT * INTO had FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
    now := had;
    now.schemaname := p_schema;
    now.tablename := p_table;
    now.relid := to_regclass(format('%I.%I', p_schema, p_table));
    IF now.relid IS NULL THEN
        RAISE EXCEPTION 'Table %.% does not exist', quote_ident(p_schema), quote_ident(p_table) USING ERRCODE = 'undefined_table';
    END IF;
    now.mode := 'none';
    now.stem := coalesce(had.stem, '');
    now.triggers := '{}';
    now.functions := '{}';
    FOR c IN SELECT * FROM ${schema}.${prefix}capture_code(p_schema, p_table) LOOP
        now.mode := c.mode;
        now.stem := left(c.functionname, -2);
        now.triggers := now.triggers || c.triggername;
        now.functions := now.functions || c.functionname;
        function_codes := function_codes || c.function_code;
        trigger_codes := trigger_codes || c.trigger_code;
    END LOOP;
    now.fingerprint := md5(array_to_string(function_codes || trigger_codes, ''));
    now.trigger_fingerprint := md5(array_to_string(trigger_codes, ''));
    now.filenode := ${schema}.${prefix}filenode(now.relid);

    IF had.relid <> now.relid OR had.triggers <> now.triggers OR had.mode <> now.mode THEN
        PERFORM ${schema}.${prefix}drop_trigger(p_schema, p_table);
        done := done || 'the former triggers removed'::text;
    END IF;
    FOR n IN 1 .. cardinality(now.triggers) LOOP
        IF had.fingerprint IS DISTINCT FROM now.fingerprint
            OR to_regprocedure(${schema}.${prefix}own(now.functions[n]) || '()') IS NULL THEN
            EXECUTE function_codes[n];
            EXECUTE format('REVOKE ALL ON FUNCTION %s() FROM PUBLIC', ${schema}.${prefix}own(now.functions[n]));
        END IF;
        IF had.trigger_fingerprint IS DISTINCT FROM now.trigger_fingerprint
            OR ${schema}.${prefix}trigger_fault(now.relid, now.triggers[n], now.functions[n]) IS NOT NULL THEN
            IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = now.relid AND g.tgname = now.triggers[n]
                       AND g.tgfoid IS DISTINCT FROM to_regprocedure(${schema}.${prefix}own(now.functions[n]) || '()')) THEN
                RAISE EXCEPTION 'Table %.% already has a trigger % that is not of prefix ${prefix}',
                    quote_ident(p_schema), quote_ident(p_table), quote_ident(now.triggers[n])
                    USING ERRCODE = 'duplicate_object', HINT = 'Configure another trigger name for this table.';
            END IF;
            EXECUTE trigger_codes[n];
            done := done || format('trigger %I made', now.triggers[n]);
        END IF;
    END LOOP;
    IF had.fingerprint IS DISTINCT FROM now.fingerprint THEN
        done := done || 'functions written'::text;
    END IF;

    IF now IS DISTINCT FROM had OR done <> '{}' THEN
        DELETE FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
        INSERT INTO ${schema}.${prefix}captures SELECT now.*;
    END IF;
    PERFORM ${schema}.${prefix}remember(p_schema, p_table);
    UPDATE ${schema}.${prefix}tables x SET status = 'OK'
        WHERE x.schemaname = p_schema AND x.tablename = p_table AND x.status <> 'OK';
    PERFORM set_config('sluice.capturing', '', true);
    RETURN nullif(array_to_string(done, ', '), '');
END
$sluice$;

-- The files a table's rows are in, those of its partitions included.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}filenode(p_relid oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN c.relkind = 'p'
        THEN (SELECT coalesce(md5(string_agg(pg_relation_filenode(t.relid)::text, ',' ORDER BY t.relid)), '')
              FROM pg_partition_tree(p_relid) t WHERE t.isleaf)
        ELSE coalesce(pg_relation_filenode(p_relid)::text, '') END
    FROM pg_class c WHERE c.oid = p_relid
$sluice$;

-- Removes the capture of a table. The functions are ours and take their triggers along: dropping a trigger by its
-- own name would need ownership of the table.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}drop_trigger(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT unnest(x.functions) FROM ${schema}.${prefix}captures x
                WHERE x.schemaname = p_schema AND x.tablename = p_table LOOP
        EXECUTE format('DROP FUNCTION IF EXISTS %s() CASCADE', ${schema}.${prefix}own(name));
    END LOOP;
    DELETE FROM ${schema}.${prefix}captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
END
$sluice$;

-- Takes the structure a table has now into the snapshot: COLS_TABLE and CURRENT_TABLES.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}remember(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF ${schema}.${prefix}describe(p_schema, p_table) IS NOT DISTINCT FROM ${schema}.${prefix}described(p_schema, p_table)
        AND NOT EXISTS (SELECT relid FROM ${schema}.${prefix}cols_table c WHERE c.schemaname = p_schema AND c.tablename = p_table
                        EXCEPT SELECT to_regclass(format('%I.%I', p_schema, p_table))::oid) THEN
        RETURN;
    END IF;
    PERFORM ${schema}.${prefix}forget(p_schema, p_table);
    INSERT INTO ${schema}.${prefix}cols_table
        SELECT * FROM ${schema}.${prefix}cols_view v WHERE v.schemaname = p_schema AND v.tablename = p_table;
    INSERT INTO ${schema}.${prefix}current_tables (schemaname, relname)
        SELECT p_schema, p_table WHERE to_regclass(format('%I.%I', p_schema, p_table)) IS NOT NULL;
END
$sluice$;

-- Takes a table out of the snapshot.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}forget(p_schema text, p_table text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    DELETE FROM ${schema}.${prefix}cols_table c WHERE c.schemaname = p_schema AND c.tablename = p_table;
    DELETE FROM ${schema}.${prefix}current_tables c WHERE c.schemaname = p_schema AND c.relname = p_table;
$sluice$;

-- Writes a DDL item. The key is drawn here, while the lock of the change is held.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}ddl_item(
    p_action text, p_schema text, p_table text, p_content text, p_oldcontent text
) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    INSERT INTO ${schema}.${prefix}items (dbid, tablename, db_action, db_schema, content, oldcontent, version)
    VALUES (current_database(), p_table, p_action, p_schema, p_content, p_oldcontent, '1')
$sluice$;

-- A table that is registered announces itself with a CREATE item: from here on its changes follow. It asks a slave to
-- make the table if it has none, and nothing else. A table that is no longer registered loses its capture; no item
-- says so, and no slave drops anything.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}tables_trigger() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM ${schema}.${prefix}drop_trigger(OLD.schemaname, OLD.tablename);
        PERFORM ${schema}.${prefix}forget(OLD.schemaname, OLD.tablename);
    ELSIF to_regclass(format('%I.%I', NEW.schemaname, NEW.tablename)) IS NOT NULL THEN
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
