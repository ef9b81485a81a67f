-- Generates the capture of one table as text: functions with its columns written out, and their triggers.
-- Called by: capture.sql, which installs it; structure.sql, when a table's structure turns out to have changed.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.
--
-- Statement triggers read the transition tables of a whole statement at once, at a third of the cost of a row
-- trigger or less. Row triggers are used where transition tables would miss rows (a table that inherits, has heirs or
-- partitions), and where a row trigger of the application may change the table's rows again: its changes would be
-- queued before those it follows.

-- The application's triggers on a table, on its partitions, and on tables whose foreign keys change its rows. MAY_WRITE: whether one may change rows of the table. It errs on
-- the safe side: false only for functions in C, and for PL/pgSQL functions without statements and without calls of
-- functions that may have some (mostly those that set a column of NEW). Of a statement trigger, whose changes come out of
-- order only beside those of another kind in one statement (MERGE, ON CONFLICT, several CTEs), the text must name the table
-- or run something that is not in it.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}foreign_triggers(
    p_relid oid, OUT name text, OUT by_row boolean, OUT fires_after boolean, OUT may_write boolean
)
RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    WITH own AS (
        SELECT c.oid, c.relname FROM pg_class c
        WHERE c.oid = ANY (p_relid || ARRAY(SELECT t.relid FROM ${schema}.${prefix}partition_tree(p_relid) t))
    ), tree AS (
        SELECT oid, relname, true AS own FROM own
        UNION
        -- Rows that a foreign key changes come after those that a trigger of its parent changes meanwhile.
        SELECT c.oid, c.relname, false FROM pg_constraint f
        CROSS JOIN LATERAL (
            SELECT f.confrelid AS relid UNION SELECT t.relid FROM ${schema}.${prefix}partition_tree(f.confrelid) t) p
        JOIN pg_class c ON c.oid = p.relid
        WHERE f.contype = 'f' AND f.conrelid IN (SELECT oid FROM own) AND f.confrelid NOT IN (SELECT oid FROM own)
          AND (f.confdeltype NOT IN ('a', 'r') OR f.confupdtype NOT IN ('a', 'r'))
    )
    SELECT DISTINCT g.tgname::text, s.by_row, t.own AND g.tgtype & 66 = 0,
        CASE l.lanname WHEN 'c' THEN false WHEN 'internal' THEN false
            WHEN 'plpgsql' THEN code.text ~* E'\\m(perform|execute|call)\\M' OR EXISTS (
                    SELECT FROM regexp_matches(code.text, E'([^[:space:][:punct:]][^[:space:]().,;:=+*/<>|"-]*|")[[:space:]]*\\(', 'g') AS m (called)
                    WHERE called[1] = '"' OR EXISTS (
                        SELECT FROM pg_proc f JOIN pg_language k ON k.oid = f.prolang
                        WHERE f.proname = lower(called[1]) AND f.provolatile = 'v' AND k.lanname NOT IN ('c', 'internal')
                          AND f.pronamespace <> 'pg_catalog'::regnamespace))
                OR (code.text ~* E'\\m(insert|update|delete|merge|truncate|copy|select)\\M'
                    AND (s.by_row OR EXISTS (SELECT FROM own o WHERE strpos(lower(code.text), lower(o.relname)) > 0)))
            ELSE true END
    FROM tree t
    JOIN pg_trigger g ON g.tgrelid = t.oid
    CROSS JOIN LATERAL (VALUES (g.tgtype & 1 = 1)) AS s (by_row)
    JOIN pg_proc p ON p.oid = g.tgfoid
    JOIN pg_language l ON l.oid = p.prolang
    CROSS JOIN LATERAL regexp_replace(p.prosrc, E'''[^'']*''|--[^\\n]*', '', 'g') AS code (text)
    WHERE NOT g.tgisinternal
      -- Capture functions, of this prefix or of another.
      AND NOT (p.prosecdef AND p.proname ~ '^[a-z][a-z0-9_]*capture_[a-z0-9_]*_[0-9a-f]{8}_[iudtgbpx]$')
$sluice$;

-- How the changes of a table are captured: 'statement' or 'row'. p_may_write: whether a trigger of the application may
-- change its rows.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_mode(p_relid oid, p_may_write boolean) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE
        WHEN p_may_write OR c.relkind = 'p' OR c.relispartition
            OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = p_relid OR i.inhparent = p_relid)
        THEN 'row' ELSE 'statement' END
    FROM pg_class c WHERE c.oid = p_relid
$sluice$;

-- Whether DDL on replicated tables is noticed by event triggers.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}has_event_triggers() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT count(*) = 3 FROM pg_event_trigger e
    WHERE e.evtname IN (SELECT '${prefix}' || w.name || left(md5($s$ ${schema}$s$::regnamespace::text), 8)
                        FROM (VALUES ('ddl_end_'), ('ddl_drop_'), ('ddl_rewrite_')) AS w (name))
      AND e.evtenabled IN ('O', 'A')
$sluice$;

-- INSERT INTO items … SELECT …, up to where FROM belongs, for rows named p_new and p_old. p_protect: as of content_code, or
-- 'not kept': without contents.
-- p_version: code of VERSION. '2' tells a slave that the transaction's changes of this table are not in their order: those of
-- a trigger were queued before those that fired it, or may have been. p_key: the code of the key; '': each row draws its own.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}insertion_code(
    p_schema text, p_table text, p_columns ${schema}.${prefix}captured_column[], p_event text, p_new text, p_old text, p_protect text DEFAULT '',
    p_version text DEFAULT '''1''', p_key text DEFAULT ''
) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format(
        E'INSERT INTO %s (%sdbid, tablename, guid, db_action, db_schema, content, oldcontent, version)\n    SELECT %s%s, %L, %s, %s',
        ${schema}.${prefix}own('items'), CASE WHEN p_key <> '' THEN 'repl_key, ' ELSE '' END,
        CASE WHEN p_key <> '' THEN p_key || ', ' ELSE '' END, ${schema}.${prefix}dbid_code(), p_table,
        CASE p_event
            WHEN 'INSERT' THEN format('%s, %L, %L, %s, NULL',
                ${schema}.${prefix}guid_code(p_columns, p_new, NULL, p_protect <> ''), p_event, p_schema, c.new)
            WHEN 'UPDATE' THEN format('%s, %L, %L, %s, %s',
                ${schema}.${prefix}guid_code(p_columns, p_new, p_old, p_protect <> ''), p_event, p_schema, c.new, c.old)
            WHEN 'DELETE' THEN format('%s, %L, %L, NULL, %s',
                ${schema}.${prefix}guid_code(p_columns, p_old, NULL, p_protect <> ''), p_event, p_schema, c.old)
            ELSE format('NULL, %L, %L, NULL, NULL', p_event, p_schema)
        END, p_version)
    FROM (SELECT CASE WHEN p_protect = 'not kept' THEN quote_literal('<not-kept/>')
                 WHEN p_event IN ('INSERT', 'UPDATE') THEN ${schema}.${prefix}content_code(p_columns, p_new, p_protect) END,
             CASE WHEN p_protect = 'not kept' THEN quote_literal('<not-kept/>')
                 WHEN p_event = 'UPDATE' THEN ${schema}.${prefix}oldcontent_code(
                     p_columns, p_new, p_old, p_protect <> '', p_protect <> 'variable')
                 WHEN p_event = 'DELETE' THEN ${schema}.${prefix}content_code(p_columns, p_old, p_protect) END) AS c (new, old)
$sluice$;

-- Reserves keys for the p_count rows of a large statement, in pieces of 2^20: those of a piece follow its number. A message of the
-- log has a byte for each key, and other sessions wait while it is copied into the log.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}draw_pieces(p_count bigint) RETURNS bigint[]
LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT array_agg(${schema}.${prefix}draw_keys(least(p_count - first, 1048576)))
    FROM generate_series(0::bigint, p_count - 1, 1048576) AS g (first)
$sluice$;

-- The code that stores them in the variable keys. p_rows: the transition table.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}keys_code(p_rows text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format(E'    taken := (SELECT pg_catalog.count(*) FROM %s);\n'
        '    keys := CASE WHEN taken OPERATOR(pg_catalog.<=) 1048576 THEN ARRAY[%s(taken)] ELSE %s(taken) END;\n',
        p_rows, ${schema}.${prefix}own('draw_keys'), ${schema}.${prefix}own('draw_pieces'))
$sluice$;

-- The code of the key of each row of a statement that has reserved the keys of all its rows. p_row: the code of the row's number.
DROP FUNCTION IF EXISTS ${schema}.${prefix}key_code();
CREATE OR REPLACE FUNCTION ${schema}.${prefix}key_code(p_row text DEFAULT 'pg_catalog.row_number() OVER ()') RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format('sluice.keys[1 OPERATOR(pg_catalog.+) ((%1$s OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog.>>) 20)]'
        ' OPERATOR(pg_catalog.+) (1 OPERATOR(pg_catalog.+) ((%1$s OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog.&) 1048575))', p_row)
$sluice$;

-- A name for the number of a row that no column of the table has.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}row_name(p_relid oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT 'sluice_row' || n FROM generate_series(1, 1601) n
    WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = p_relid AND a.attname = 'sluice_row' || n)
    ORDER BY n LIMIT 1
$sluice$;

-- The FROM clause that reads the transition tables of a statement.
DROP FUNCTION IF EXISTS ${schema}.${prefix}transition_code(text);
CREATE OR REPLACE FUNCTION ${schema}.${prefix}transition_code(p_relid oid, p_event text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE p_event
        WHEN 'INSERT' THEN E'\n    FROM sluice_new n'
        WHEN 'DELETE' THEN E'\n    FROM sluice_old o'
        WHEN 'UPDATE' THEN format(
            E'\n    FROM (SELECT *, pg_catalog.row_number() OVER () AS %1$s FROM sluice_old) o'
            '\n    FULL JOIN (SELECT *, pg_catalog.row_number() OVER () AS %1$s FROM sluice_new) n'
            '\n    ON n.%1$s OPERATOR(pg_catalog.=) o.%1$s ORDER BY n.%1$s', ${schema}.${prefix}row_name(p_relid))
        ELSE '' END
$sluice$;

-- Returns the next rows of an open cursor, so that two cursors can be read side by side in one FROM.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}next_rows(p_cursor refcursor, p_count integer) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN QUERY EXECUTE format('FETCH FORWARD %s FROM %I', p_count, p_cursor);
END
$sluice$;

-- The code that pairs old and new rows of an update of many rows. Both transition tables list the rows in the order in
-- which the statement changed them, including a row that it changed twice (a foreign key to the same table can do that).
-- So reading them side by side pairs old and new rows even if keys changed, and keeps REPL_KEY in that order. A join over
-- row numbers does the same at twice the cost; it is needed for more than 800 columns, and for types that are not built
-- in, because it names no types: such a type may be renamed, moved, or in a schema that this account may not use.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}lockstep_code(
    p_schema text, p_table text, p_relid oid, p_columns ${schema}.${prefix}captured_column[], p_protect text
) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    WITH listed AS (
        SELECT count(*) AS number,
            string_agg(${schema}.${prefix}quoted(c.attname), ', ' ORDER BY n) AS names,
            string_agg(format('c%s %s', n, c.atttype), ', ' ORDER BY n) AS types,
            string_agg('o' || n, ', ' ORDER BY n) AS old, string_agg('n' || n, ', ' ORDER BY n) AS new,
            string_agg(format('x.o%s AS %s', n, ${schema}.${prefix}quoted(c.attname)), ', ' ORDER BY n) AS old_as,
            string_agg(format('x.n%s AS %s', n, ${schema}.${prefix}quoted(c.attname)), ', ' ORDER BY n) AS new_as,
            bool_and(y.typnamespace = 'pg_catalog'::regnamespace) AS usual
        FROM unnest(p_columns) WITH ORDINALITY AS
            c (attname, opening, atttype, nullable, keypos, plain, exact, form, settings, n)
        JOIN pg_attribute a ON a.attrelid = p_relid AND a.attname = c.attname
        JOIN pg_type y ON y.oid = a.atttypid
    )
    SELECT CASE WHEN usual AND number BETWEEN 1 AND 800 THEN
        E'    remaining := (SELECT pg_catalog.count(*) FROM sluice_new);\n'
        || format(E'    OPEN old_rows NO SCROLL FOR SELECT %s FROM sluice_old;\n', names)
        || format(E'    OPEN new_rows NO SCROLL FOR SELECT %s FROM sluice_new;\n    LOOP\n    ', names)
        || format(E'    key := %s(least(remaining, 10000));\n    ', ${schema}.${prefix}own('draw_keys'))
        || ${schema}.${prefix}insertion_code(p_schema, p_table, p_columns, 'UPDATE', 'n', 'o', p_protect,
            p_key => 'sluice.key OPERATOR(pg_catalog.+) pg_catalog.row_number() OVER ()')
        || E'\n    FROM ROWS FROM (\n'
        || format(E'        %s(sluice.old_rows, 10000) AS (%s),\n', ${schema}.${prefix}own('next_rows'), types)
        || format(E'        %s(sluice.new_rows, 10000) AS (%s)\n    ) AS x (%s, %s)\n', ${schema}.${prefix}own('next_rows'), types, old, new)
        || format(E'    CROSS JOIN LATERAL (SELECT %s) AS o\n    CROSS JOIN LATERAL (SELECT %s) AS n;\n', old_as, new_as)
        || E'    GET DIAGNOSTICS taken = ROW_COUNT;\n'
           '    EXIT WHEN taken OPERATOR(pg_catalog.<) 10000;\n'
           '    remaining := remaining OPERATOR(pg_catalog.-) taken;\n    END LOOP;\n'
           '    CLOSE old_rows;\n    CLOSE new_rows;\n'
    ELSE
        ${schema}.${prefix}keys_code('sluice_new')
            || '    ' || ${schema}.${prefix}insertion_code(p_schema, p_table, p_columns, 'UPDATE', 'n', 'o', p_protect,
                p_key => ${schema}.${prefix}key_code('n.' || ${schema}.${prefix}row_name(p_relid)))
            || ${schema}.${prefix}transition_code(p_relid, 'UPDATE') || E';\n'
    END
    FROM listed
$sluice$;

-- The index of the key that COLS_VIEW selects for a table; NULL for a partitioned table, whose index has no files.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}key_index(p_relid oid, p_columns ${schema}.${prefix}captured_column[]) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid AND c.relkind = 'i'
    WHERE i.indrelid = p_relid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
      AND ARRAY(SELECT a.attname::text FROM unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY k (attnum, n)
                JOIN pg_attribute a ON a.attrelid = p_relid AND a.attnum = k.attnum ORDER BY k.n)
          = ARRAY(SELECT k.attname FROM unnest(p_columns) k WHERE k.keypos > 0 ORDER BY k.keypos)
    ORDER BY i.indisprimary DESC, i.indexrelid
    LIMIT 1
$sluice$;

-- An expression whose value changes with the columns of a table, the labels of their enums, and the attributes of their
-- composite and row types. Each hash is hashed once more: the hash of a record is linear in its fields, so that a sum stays the same
-- where two rows exchange a value. p_written: it also changes where one of them is as before, but was written since: slaves may
-- have been told of what it was in between.
DROP FUNCTION IF EXISTS ${schema}.${prefix}signature_code(oid);
CREATE OR REPLACE FUNCTION ${schema}.${prefix}signature_code(p_relid oid, p_written boolean) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format($code$(SELECT coalesce(pg_catalog.sum(pg_catalog.hash_record_extended(ROW(pg_catalog.int8send(
            pg_catalog.hash_record_extended(
            ROW(a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attgenerated%s), 0))), 0)), 0)
        FROM pg_catalog.pg_attribute a
        WHERE a.attrelid OPERATOR(pg_catalog.=) %s::pg_catalog.oid
          AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped)$code$, x.attribute, p_relid)
        || CASE WHEN e.types = '{}' THEN '' ELSE format($code$
        OPERATOR(pg_catalog.+) (SELECT coalesce(pg_catalog.sum(pg_catalog.hash_record_extended(ROW(pg_catalog.int8send(
            pg_catalog.hash_record_extended(ROW(e.oid, e.enumlabel%s), 0))), 0)), 0)
        FROM pg_catalog.pg_enum e WHERE e.enumtypid OPERATOR(pg_catalog.=) ANY (%L::pg_catalog.oid[]))$code$, x.label, e.types) END
        || CASE WHEN e.composites = '{}' THEN '' ELSE format($code$
        OPERATOR(pg_catalog.+) (SELECT coalesce(pg_catalog.sum(pg_catalog.hash_record_extended(ROW(pg_catalog.int8send(
            pg_catalog.hash_record_extended(ROW(a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod%s), 0))), 0)), 0)
        FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) ANY (%L::pg_catalog.oid[])
          AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped)$code$, x.attribute, e.composites) END
    FROM (VALUES (${schema}.${prefix}enum_types(p_relid), ${schema}.${prefix}composite_types(p_relid, '{c,r,p}')))
        AS e (types, composites)
    CROSS JOIN (VALUES (CASE WHEN p_written THEN ', a.xmin::pg_catalog.text' ELSE '' END,
        CASE WHEN p_written THEN ', e.xmin::pg_catalog.text' ELSE '' END)) AS x (attribute, label)
$sluice$;

-- The code that notices, without event triggers, that the table is no longer as the function was generated for: it has
-- other columns, another name, or no key. It costs five microseconds for each statement. p_late then captures this
-- statement. A transaction whose snapshot is older than the change sees the old columns here: check_code notices.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}guard_code(
    p_schema text, p_table text, p_relid oid, p_columns ${schema}.${prefix}captured_column[], p_late text
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    signature text;
    key_index oid := ${schema}.${prefix}key_index(p_relid, p_columns);
BEGIN
    EXECUTE 'SELECT ' || ${schema}.${prefix}signature_code(p_relid, true) INTO signature;
    RETURN format(E'    IF %s OPERATOR(pg_catalog.<>) %s\n        OR TG_TABLE_NAME OPERATOR(pg_catalog.<>) %L'
            ' OR TG_TABLE_SCHEMA OPERATOR(pg_catalog.<>) %L%s THEN\n%s    END IF;\n',
            ${schema}.${prefix}signature_code(p_relid, true), signature, p_table, p_schema,
            CASE WHEN key_index IS NULL THEN ''
                ELSE format(' OR pg_catalog.pg_relation_filenode(%s::pg_catalog.oid) IS NULL', key_index) END, p_late);
END
$sluice$;

-- The code that captures the rows of a statement, or one row, for which a function was not generated: it is generated on
-- the spot, and uses no cast or operator of a value (structure.sql). Nothing is locked, nothing waits, and a renamed or
-- dropped column fails no statement. Its names must not depend on the application's search_path.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}late_call_code(p_relid oid, p_event text, p_by_row boolean) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format(E'        DECLARE\n            former_path pg_catalog.text := pg_catalog.current_setting(''search_path'');\n        BEGIN\n'
        '            PERFORM pg_catalog.set_config(''search_path'', ''pg_catalog, pg_temp'', true);\n'
        '            EXECUTE %s(%s::pg_catalog.oid, TG_RELID, %L::pg_catalog.text, %L::pg_catalog.bool)%s;\n'
        '            PERFORM pg_catalog.set_config(''search_path'', former_path, true);\n'
        '            RETURN NULL;\n        END;\n',
        ${schema}.${prefix}own('late_code'), p_relid, p_event, p_by_row,
        CASE WHEN NOT p_by_row THEN '' WHEN p_event = 'INSERT' THEN ' USING NEW' WHEN p_event = 'DELETE' THEN ' USING OLD'
            ELSE ' USING NEW, OLD' END)
$sluice$;

-- The code that accepts only rows which are captured, and whose columns have the names and types for which the rest of
-- the body was generated. Each IF costs some 0.2 microseconds for each row.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}check_code(p_relid oid, p_event text, p_by_row boolean, p_fitting text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN c.relkind = 'p' AND p_by_row THEN
        format(E'    IF %s OR TG_LEVEL OPERATOR(pg_catalog.<>) %L OR TG_WHEN OPERATOR(pg_catalog.<>) %L'
            ' OR TG_OP OPERATOR(pg_catalog.<>) %L THEN\n        RETURN NULL;\n    END IF;\n', f.replayed, 'ROW', 'AFTER', p_event)
        -- The partitions there are now are known without a look at the catalogue.
        || format(E'    IF TG_RELID OPERATOR(pg_catalog.<>) ALL (%1$s) THEN\n'
            '        IF pg_catalog.pg_partition_root(TG_RELID)::pg_catalog.oid IS DISTINCT FROM %2$s::pg_catalog.oid THEN\n'
            '            RETURN NULL;\n        END IF;\n'
            '        PERFORM %3$s(%2$s::pg_catalog.oid, TG_RELID);\n'
            '        IF %2$s::pg_catalog.oid OPERATOR(pg_catalog.<>) ALL (%1$s) THEN\n%4$s        END IF;\n    END IF;\n',
            f.code, p_relid, ${schema}.${prefix}own('note_partition'), f.late)
    ELSE
        -- Nobody else may make triggers that call the function (grant_execute): TG_RELID need not be looked at, and nothing
        -- of the second condition is left when the first one is calculated.
        format(E'    IF %1$s OR %2$s::pg_catalog.oid OPERATOR(pg_catalog.<>) ALL (%3$s) THEN\n'
            '        IF %1$s THEN\n            RETURN NULL;\n        END IF;\n%4$s    END IF;\n', f.replayed, p_relid, f.code, f.late)
    END
    FROM pg_class c CROSS JOIN (SELECT p_fitting AS code,
                                       ${schema}.${prefix}replayed_code() AS replayed,
                                       ${schema}.${prefix}late_call_code(p_relid, p_event, p_by_row) AS late) f
    WHERE c.oid = p_relid
$sluice$;

-- The body of a function that corrects the order if a trigger of the application changed a row meanwhile: the statement
-- of that trigger was queued before the one that fired it, so the present row is queued once more. The row is found by
-- its key, with an operator if the type is built in, otherwise by its text.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}settle_code(
    p_schema text, p_table text, p_relid oid, p_columns ${schema}.${prefix}captured_column[]
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (WITH keys AS (
        SELECT string_agg(CASE WHEN k.form NOT IN ('output', 'doubtful') THEN
                   -- Should another table have the name by now, the statement fails before anything of it runs.
                   format('c.%1$s OPERATOR(pg_catalog.=) q.%1$s AND CASE WHEN false THEN %2$s(c.%1$s, q.%1$s) ELSE true END',
                       ${schema}.${prefix}quoted(k.attname), ${schema}.${prefix}own('alike'))
               ELSE format('pg_catalog.concat(c.%1$s) COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) pg_catalog.concat(q.%1$s) COLLATE pg_catalog."C"',
                   ${schema}.${prefix}quoted(k.attname)) END,
               ' AND ' ORDER BY k.keypos) AS same
        FROM unnest(p_columns) k WHERE k.keypos > 0
    ), code AS (
        SELECT same, CASE c.relkind WHEN 'p' THEN '' ELSE 'ONLY ' END || ${schema}.${prefix}quoted(p_schema) || '.' || ${schema}.${prefix}quoted(p_table) AS here,
            ${schema}.${prefix}from_record_code(p_columns, false) AS record,
            ${schema}.${prefix}insertion_code(p_schema, p_table, p_columns, 'INSERT', 'c', NULL, '', '''2''') AS inserted,
            ${schema}.${prefix}insertion_code(p_schema, p_table, p_columns, 'UPDATE', 'c', 'q', '', '''2''') AS updated,
            ${schema}.${prefix}insertion_code(p_schema, p_table, p_columns, 'DELETE', NULL, 'q', '', '''2''') AS deleted,
            (SELECT string_agg(format('%L::pg_catalog.regclass', relid::text), ', ' ORDER BY place)
             FROM unnest(p_relid || ARRAY(SELECT b.relid FROM ${schema}.${prefix}partition_tree(p_relid) b
                                         WHERE b.relid <> p_relid ORDER BY 1)) WITH ORDINALITY AS t (relid, place)) AS tables,
            ${schema}.${prefix}content_code(p_columns, 'c', '') AS now, ${schema}.${prefix}content_code(p_columns, 'q', '') AS queued
        FROM keys CROSS JOIN pg_class c WHERE c.oid = p_relid
    )
    SELECT format(E'\n#variable_conflict use_column\nDECLARE\n    reason pg_catalog.text := %s(ARRAY[%s]);\nBEGIN\n'
        '    IF reason OPERATOR(pg_catalog.=) ''?'' THEN\n        reason := %s(%s::pg_catalog.oid);\n    END IF;\n'
        '    IF reason IS NOT NULL THEN\n        PERFORM %s(%L::pg_catalog.text, %L::pg_catalog.text, reason);\n        RETURN;\n    END IF;\n',
        ${schema}.${prefix}own('unreadable_since'), tables, ${schema}.${prefix}own('unreadable'), p_relid,
        ${schema}.${prefix}own('differ_once'), p_schema, p_table)
        || CASE WHEN same IS NULL THEN '' ELSE
            format(E'    IF deleted THEN\n    %s\n    FROM %s c CROSS JOIN %s WHERE %s;\n    RETURN;\n    END IF;\n',
                inserted, here, record, same)
            || format(E'    %s\n    FROM %s c CROSS JOIN %s WHERE %s AND %s OPERATOR(pg_catalog.<>) %s;\n',
                updated, here, record, same, now, queued)
            || format(E'    %s\n    FROM %s WHERE NOT EXISTS (SELECT FROM %s c WHERE %s);\n', deleted, record, here, same)
        END || E'END\n'
    FROM code);
END
$sluice$;

-- The body of one capture function.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}body_code(
    p_schema text, p_table text, p_relid oid, p_columns ${schema}.${prefix}captured_column[], p_fitting text, p_event text,
    p_by_row boolean, p_settle boolean, p_guard boolean, p_debug boolean, p_protect text, p_settle_by text
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    version text := CASE WHEN NOT p_by_row OR NOT p_settle THEN '''1'''
        ELSE format('CASE WHEN %s pg_catalog.pg_trigger_depth() OPERATOR(pg_catalog.>) 1 THEN ''2'' ELSE ''1'' END',
            CASE WHEN p_event <> 'DELETE' THEN 'NEW.xmax OPERATOR(pg_catalog.<>) ''0''::pg_catalog.xid OR' ELSE '' END) END;
    insertion text := ${schema}.${prefix}insertion_code(p_schema, p_table, p_columns, p_event,
        CASE WHEN p_by_row THEN 'NEW' ELSE 'n' END, CASE WHEN p_by_row THEN 'OLD' ELSE 'o' END,
        CASE WHEN p_by_row THEN 'variable' ELSE p_protect END, version);
    content_row text := CASE p_event WHEN 'DELETE' THEN 'OLD' ELSE 'NEW' END;
    protection text := ${schema}.${prefix}protection_code(p_columns, content_row, true);
    oversized text := CASE WHEN p_by_row THEN ${schema}.${prefix}oversized_code(p_columns, content_row, true)
        || CASE p_event WHEN 'UPDATE' THEN ' OR ' || ${schema}.${prefix}oversized_code(p_columns, 'OLD', true) ELSE '' END END;
    partitioned boolean := (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = p_relid);
    declarations text := '';
    body text := '';
BEGIN
    IF p_event = 'TRUNCATE' AND partitioned THEN
        -- First: what follows may return.
        body := format(E'    PERFORM %s(%L::pg_catalog.text);\n', ${schema}.${prefix}own('end_note'), 'truncating ' || p_relid);
    END IF;
    IF NOT p_by_row AND p_guard THEN
        body := body || E'    IF ' || ${schema}.${prefix}replayed_code() || E' THEN\n        RETURN NULL;\n    END IF;\n'
            || ${schema}.${prefix}guard_code(p_schema, p_table, p_relid, p_columns,
                ${schema}.${prefix}late_call_code(p_relid, p_event, false));
    END IF;
    body := body || ${schema}.${prefix}check_code(p_relid, p_event, p_by_row, p_fitting);
    IF oversized IS NOT NULL THEN
        -- Not within the INSERT: when PostgreSQL plans it, it computes parts of it from the values of the row.
        body := body || format(E'    IF (%s) THEN\n    %s;\n        RETURN NULL;\n    END IF;\n', oversized,
            ${schema}.${prefix}insertion_code(p_schema, p_table, p_columns, p_event, 'NEW', 'OLD', 'not kept', version));
    END IF;
    IF p_by_row AND protection IS NOT NULL THEN
        declarations := E'DECLARE\n    protected pg_catalog.text;\n';
        body := body || format(E'    IF (%s) THEN\n        protected := %s(%s);\n    END IF;\n',
            protection, p_protect, ${schema}.${prefix}row_code(p_columns, content_row));
    END IF;
    IF p_by_row OR p_event = 'TRUNCATE' THEN
        body := body || '    ' || insertion || E';\n';
    ELSIF p_event = 'UPDATE' THEN
        -- One row, or none, needs no pairing.
        declarations := E'DECLARE\n    old_rows refcursor;\n    new_rows refcursor;\n    remaining bigint;\n    taken bigint;\n'
            '    key bigint;\n    keys bigint[];\n';
        body := body || E'    IF EXISTS (SELECT FROM sluice_new OFFSET 1) THEN\n'
            || ${schema}.${prefix}lockstep_code(p_schema, p_table, p_relid, p_columns, p_protect)
            || E'    ELSE\n    ' || insertion || E'\n    FROM sluice_old o CROSS JOIN sluice_new n;\n    END IF;\n';
    ELSE
        -- To count the rows first would cost a statement of one row a third more: the first few draw a key each.
        declarations := E'DECLARE\n    taken bigint;\n    keys bigint[];\n';
        body := body || '    ' || insertion || ${schema}.${prefix}transition_code(p_relid, p_event) || E' LIMIT 10;\n'
            || E'    GET DIAGNOSTICS taken = ROW_COUNT;\n    IF taken OPERATOR(pg_catalog.=) 10 THEN\n'
            || ${schema}.${prefix}keys_code(CASE p_event WHEN 'INSERT' THEN 'sluice_new' ELSE 'sluice_old' END)
            || '    ' || ${schema}.${prefix}insertion_code(p_schema, p_table, p_columns, p_event, 'n', 'o', p_protect,
                p_key => ${schema}.${prefix}key_code())
            || ${schema}.${prefix}transition_code(p_relid, p_event) || E' OFFSET 10;\n    END IF;\n';
    END IF;
    IF p_by_row AND p_settle THEN
        -- A row that nobody changed or locked since has no xmax. Of one that was deleted nothing tells whether it is back.
        body := body || CASE p_event WHEN 'DELETE' THEN format(E'    PERFORM %s(%s, true);\n', p_settle_by,
                ${schema}.${prefix}row_code(p_columns, 'OLD'))
            ELSE format(E'    IF NEW.xmax OPERATOR(pg_catalog.<>) ''0''::pg_catalog.xid THEN\n'
                '        PERFORM %s(%s, false);\n    END IF;\n', p_settle_by, ${schema}.${prefix}row_code(p_columns, 'NEW')) END;
    END IF;
    IF p_debug THEN
        body := body || format(E'    PERFORM %s(pg_catalog.concat(%L, pg_catalog.pg_current_xact_id(), %L, session_user));\n',
            ${schema}.${prefix}own('debug'), format('%s %I.%I (%s trigger) in transaction ', p_event, p_schema, p_table,
                CASE WHEN p_by_row THEN 'row' ELSE 'statement' END), ' by ');
    END IF;
    -- Variables in a statement that reads rows are named with the block: a column may have any name.
    RETURN format(E'\n#variable_conflict use_column\n<<sluice>>\n%sBEGIN\n%s    RETURN NULL;\nEND\n', declarations, body);
END
$sluice$;

-- The settings on which the texts of a table's values depend, as clauses of its functions. Each costs half a microsecond
-- for each call, so only those that the types need are set. Functions of updates also set search_path, because nothing
-- else qualifies the operator of IS DISTINCT FROM.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}settings_code(p_columns ${schema}.${prefix}captured_column[], p_event text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT coalesce(string_agg(format(' SET %I TO %s', u.s, CASE u.s
            WHEN 'DateStyle' THEN quote_literal('ISO, YMD') WHEN 'TimeZone' THEN quote_literal('UTC')
            WHEN 'IntervalStyle' THEN quote_literal('postgres') WHEN 'extra_float_digits' THEN '1'
            WHEN 'bytea_output' THEN quote_literal('hex') WHEN 'lc_monetary' THEN quote_literal('C')
            WHEN 'search_path' THEN 'pg_catalog, pg_temp' WHEN 'quote_all_identifiers' THEN 'off' WHEN 'jit' THEN 'off' END), ''
        ORDER BY u.s), '')
    FROM (SELECT unnest(x.settings) FROM unnest(p_columns) x WHERE p_event <> 'TRUNCATE'
          -- To compile an insert takes a tenth of a second, where jit_above_cost is low.
          UNION SELECT 'jit'
          UNION SELECT 'search_path' WHERE p_event = 'UPDATE') AS u (s)
$sluice$;

-- With what the names of a table's capture functions begin: no other table has it. A renamed table keeps its own, so its
-- former name must get another one.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}free_stem(p_schema text, p_table text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    free text;
    n integer := 0;
BEGIN
    LOOP
        free := 'capture_' || left(regexp_replace(lower(p_table), '[^a-z0-9]', '_', 'g'), 12) || '_'
            || left(md5(format('${prefix}%I.%I', p_schema, p_table) || coalesce(' ' || nullif(n, 0), '')), 8);
        EXIT WHEN NOT EXISTS (SELECT FROM ${schema}.${prefix}captures x WHERE x.stem = free);
        n := n + 1;
    END LOOP;
    RETURN free;
END
$sluice$;

-- The triggers that a table needs, with the code of each and of its function. No row: nothing is captured. TARGET is the
-- relation of the trigger: the table itself, or one of its partitions.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}capture_code(
    p_schema text, p_table text,
    OUT target oid, OUT mode text, OUT triggername text, OUT functionname text, OUT function_code text, OUT trigger_code text
)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t ${schema}.${prefix}tables;
    relid oid := ${schema}.${prefix}relation(p_schema, p_table);
    stem text;
    mark text;
    event text;
    by_row boolean;
    settle boolean;
    precedes boolean;  -- a trigger of the application fires before those of this name
    guard boolean := NOT ${schema}.${prefix}has_event_triggers();
    own text;
    columns ${schema}.${prefix}captured_column[];
    fitting text;
BEGIN
    SELECT * INTO t FROM ${schema}.${prefix}tables x WHERE x.schemaname = p_schema AND x.tablename = p_table;
    IF t.tablename IS NULL OR relid IS NULL OR t.actions = '' THEN
        RETURN;
    END IF;
    target := relid;
    columns := ${schema}.${prefix}columns_of(relid);
    fitting := ${schema}.${prefix}fitting_code(relid);
    SELECT coalesce(bool_or(g.may_write), false),
           coalesce(bool_or(g.fires_after AND g.name COLLATE "C" < t.trigger_name || '_u' COLLATE "C"), false)
        INTO settle, precedes FROM ${schema}.${prefix}foreign_triggers(relid) g;
    mode := ${schema}.${prefix}capture_mode(relid, settle);
    stem := coalesce(
        (SELECT nullif(x.stem, '') FROM ${schema}.${prefix}captures x
         WHERE x.schemaname = p_schema AND x.tablename = p_table AND NOT EXISTS (
             SELECT FROM ${schema}.${prefix}captures o
             WHERE o.stem = x.stem AND (o.schemaname, o.tablename) <> (x.schemaname, x.tablename))),
        ${schema}.${prefix}free_stem(p_schema, p_table));
    -- Triggers fire in the order of their names: ours come before any that could change rows again. Those of foreign keys
    -- are called RI_ConstraintTrigger.
    mark := CASE WHEN mode = 'row' OR precedes THEN '!' ELSE '' END;

    FOREACH event IN ARRAY ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'] LOOP
        -- TRUNCATE removes rows: it is captured where deletes are.
        CONTINUE WHEN t.actions IS NOT NULL
            AND position(CASE event WHEN 'TRUNCATE' THEN 'D' ELSE left(event, 1) END IN t.actions) = 0;
        by_row := mode = 'row' AND event <> 'TRUNCATE';
        triggername := mark || t.trigger_name || '_' || lower(left(event, 1));
        functionname := stem || '_' || lower(left(event, 1));
        own := ${schema}.${prefix}own(functionname);
        function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER%s AS %L',
            own, ${schema}.${prefix}settings_code(columns, event),
            ${schema}.${prefix}body_code(p_schema, p_table, relid, columns, fitting, event, by_row, settle, guard, t.debug = 1,
                ${schema}.${prefix}own(stem || '_x'), ${schema}.${prefix}own(stem || '_s')));
        trigger_code := ${schema}.${prefix}trigger_code(triggername, 'AFTER ' || event, format('%I.%I', p_schema, p_table),
            CASE WHEN by_row OR event = 'TRUNCATE' THEN '' ELSE 'REFERENCING '
                || CASE WHEN event IN ('UPDATE', 'DELETE') THEN 'OLD TABLE AS sluice_old ' ELSE '' END
                || CASE WHEN event IN ('UPDATE', 'INSERT') THEN 'NEW TABLE AS sluice_new ' ELSE '' END END
            || 'FOR EACH ' || CASE WHEN by_row THEN 'ROW' ELSE 'STATEMENT' END, own);
        RETURN NEXT;
    END LOOP;

    -- Without a trigger: protects the texts of a row that needs it.
    triggername := NULL;
    trigger_code := NULL;
    functionname := stem || '_x';
    function_code := format('CREATE OR REPLACE FUNCTION %s(r record) RETURNS text LANGUAGE plpgsql STABLE AS %L',
        ${schema}.${prefix}own(functionname),
        format(E'\n#variable_conflict use_column\nBEGIN\n    RETURN (SELECT %s FROM %s);\nEND\n',
            ${schema}.${prefix}content_code(columns, 'q', 'always'), ${schema}.${prefix}from_record_code(columns, mode = 'statement')));
    RETURN NEXT;

    IF settle THEN
        functionname := stem || '_s';
        function_code := format('CREATE OR REPLACE FUNCTION %s(r record, deleted boolean) RETURNS void LANGUAGE plpgsql'
            ' SET search_path TO pg_catalog, pg_temp SET row_security TO off%s%s AS %L', ${schema}.${prefix}own(functionname),
            -- As run_reading, in guards.sql.
            CASE WHEN current_setting('restrict_nonsystem_relation_kind', true) IS NOT NULL
                THEN format(' SET restrict_nonsystem_relation_kind TO %L', 'view, foreign-table') ELSE '' END,
            ${schema}.${prefix}settings_code(columns, 'INSERT'), ${schema}.${prefix}settle_code(p_schema, p_table, relid, columns));
        RETURN NEXT;
    END IF;

    IF mode = 'row' AND guard THEN
        -- Row triggers are looked after once a statement, before its rows.
        triggername := mark || t.trigger_name || '_g';
        functionname := stem || '_g';
        own := ${schema}.${prefix}own(functionname);
        function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS %L', own,
            format(E'\nBEGIN\n%s    RETURN NULL;\nEND\n',
                ${schema}.${prefix}guard_code(p_schema, p_table, relid, columns, ${schema}.${prefix}late_call_code(relid, 'BEFORE', false))));
        trigger_code := ${schema}.${prefix}trigger_code(triggername, 'BEFORE INSERT OR UPDATE OR DELETE',
            format('%I.%I', p_schema, p_table), 'FOR EACH STATEMENT', own);
        RETURN NEXT;
    END IF;
    RETURN QUERY SELECT p.target, mode, p.triggername, p.functionname, p.function_code, p.trigger_code
        FROM ${schema}.${prefix}partition_code(p_schema, p_table, relid, mark || t.trigger_name, stem) p
        WHERE t.actions IS NULL OR position('D' IN t.actions) > 0;
END
$sluice$;
