-- Prevents that code of the application runs with the rights of the account that installed this: the owner of a
-- captured table may give it columns with types, casts, operators, policies and functions of his own at any time.
-- Called by: the generated capture functions, and what writes them (capture_code.sql, partitions.sql, structure.sql,
--   ddl.sql).
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.

-- The account of this installation: it owns ITEMS.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}account() RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT c.relowner FROM pg_class c WHERE c.oid = $s$ ${schema}.${prefix}items$s$::regclass);
END
$sluice$;

-- Those of some partitions of a table, or of the table itself, for which code may run that was generated for columns with
-- these names, types and numbers in this order; none if the table's columns are others by now. It asks PostgreSQL itself, by
-- pg_typeof and the names of a row's fields, not the catalogue, which a transaction may see as before the change. Two
-- columns that exchange their names have the same names and types, but not the same key and NOT NULL. A column that was
-- dropped and added again has another number, and perhaps columns in between were there and are gone.
--   p_name: the name of the table, with its schema.
--   p_tables: the table, and the partitioned ones below it. Capture functions pass it as constants: then PostgreSQL
--   computes the result
--   once, and again only after one of these tables was altered. It is declared IMMUTABLE for this, although that is not
--   true
--   for ever. It costs nothing for a row or a statement.
--   The query runs nothing of the application, whatever the name means when it is read: a NULL of any type is taken from
--   an empty array, and a missing column could only be a function on records of PostgreSQL's own.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}fitting(
    p_tables regclass[], p_rowtype oid, p_names text[], p_types oid[], p_relids oid[], p_numbers int2[], p_name text
) RETURNS oid[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $sluice$
DECLARE
    types oid[];
    names text[];
BEGIN
    EXECUTE format(
        'SELECT ARRAY[pg_typeof(x.whole)%s]::oid[], ARRAY(SELECT f.name FROM json_object_keys(row_to_json(r.*)) WITH ORDINALITY AS f (name, place)'
        ' ORDER BY f.place)'
        ' FROM (SELECT (ARRAY[]::%s[])[1] AS whole) x CROSS JOIN LATERAL (SELECT (x.whole).*) r',
        (SELECT string_agg(format(', pg_typeof(r.%I)', name), '' ORDER BY place) FROM unnest(p_names) WITH ORDINALITY AS n (name, place)),
        p_tables[1]) INTO types, names;
    -- NULL: there is no column of that number any more.
    IF types <> p_rowtype || p_types OR names <> p_names OR p_tables[1]::text <> p_name
        OR EXISTS (SELECT FROM unnest(p_numbers) n WHERE has_column_privilege(p_tables[1], n, 'SELECT') IS NULL) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT relid FROM unnest(p_relids) AS r (relid)
                 WHERE relid = p_tables[1] OR pg_partition_root(relid) = p_tables[1]);
EXCEPTION WHEN OTHERS THEN
    -- A column is gone, or the table lies in a schema that this account may not use.
    RETURN '{}';
END
$sluice$;

-- What capture functions of earlier releases call. They stay in force until their table is reconciled, if its triggers must
-- change: nothing fits, so they generate their code anew at each call.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}fitting(
    p_tables regclass[], p_rowtype oid, p_names text[], p_types oid[], p_relids oid[]
) RETURNS oid[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT '{}'::oid[]
$sluice$;
CREATE OR REPLACE FUNCTION ${schema}.${prefix}fitting(
    p_tables regclass[], p_rowtype oid, p_names text[], p_types oid[], p_relids oid[], p_next integer, p_name text
) RETURNS oid[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT '{}'::oid[]
$sluice$;

-- The code of that call for the present table.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}fitting_code(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $sluice$
BEGIN
    RETURN (SELECT format(
        '%s(ARRAY[%s], %s::pg_catalog.oid, %L::pg_catalog.text[], %L::pg_catalog.oid[], %L::pg_catalog.oid[], %L::pg_catalog.int2[], %L)',
        ${schema}.${prefix}own('fitting'),
        (SELECT string_agg(format('%L::pg_catalog.regclass', t.relid::text), ', ' ORDER BY t.depth, t.relid)
         FROM (SELECT p_relid AS relid, 0 AS depth
               UNION SELECT p.relid, p.depth FROM ${schema}.${prefix}partition_tree(p_relid) p WHERE p.kind = 'p') t),
        (SELECT c.reltype FROM pg_class c WHERE c.oid = p_relid),
        coalesce(array_agg(a.attname ORDER BY a.attnum), '{}'), coalesce(array_agg(a.atttypid ORDER BY a.attnum), '{}'),
        p_relid || ${schema}.${prefix}leaves(p_relid), coalesce(array_agg(a.attnum ORDER BY a.attnum), '{}'), p_relid::regclass)
        FROM pg_attribute a WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped);
END
$sluice$;

-- Causes an error at parsing unless two values have the same type; never called.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}alike(a anyelement, b anyelement) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT true
$sluice$;

-- Stores a note for the rest of the transaction, or until it is deleted. A session can change any setting, but only this
-- account a note. It is a row of INFO, named after the transaction.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}note(p_note text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    INSERT INTO ${schema}.${prefix}info (name, value) VALUES (p_note || ' ' || pg_current_xact_id(), '') ON CONFLICT (name) DO NOTHING
$sluice$;

CREATE OR REPLACE FUNCTION ${schema}.${prefix}is_noted(p_note text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT EXISTS (SELECT FROM ${schema}.${prefix}info i WHERE i.name = p_note || ' ' || pg_current_xact_id_if_assigned()));
END
$sluice$;

CREATE OR REPLACE FUNCTION ${schema}.${prefix}end_note(p_note text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    DELETE FROM ${schema}.${prefix}info i WHERE i.name = p_note || ' ' || pg_current_xact_id_if_assigned()
$sluice$;

-- Deletes the notes of transactions that ended.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}forget_notes() RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    DELETE FROM ${schema}.${prefix}info i WHERE i.name ~ '^(differs|capturing|told|truncating) '
$sluice$;

-- Runs a statement that reads a table of the application, without policies, and without views that may have taken the
-- table's name. Returns the number of written rows.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}run_reading(p_code text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    written bigint;
BEGIN
    EXECUTE p_code;
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$sluice$;

-- Minor releases before August 2024 do not have the setting that keeps views out.
DO $sluice$
BEGIN
    IF current_setting('restrict_nonsystem_relation_kind', true) IS NOT NULL THEN
        ALTER FUNCTION ${schema}.${prefix}run_reading(text) SET restrict_nonsystem_relation_kind = 'view, foreign-table';
    END IF;
END
$sluice$;

-- Whether the owner of a function is this account, or a role that may do more anyway.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}is_trusted(p_owner oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT p_owner = ${schema}.${prefix}account()
        OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = p_owner AND r.rolsuper)
$sluice$;

-- Whether a function, by its declaration, runs a statement or a function that it is given, such as st_mapalgebraexpr of
-- postgis_raster: then whoever calls it decides what it runs, although it is a superuser's.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}runs_texts(p_function oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT EXISTS (SELECT FROM pg_proc p WHERE p.oid = p_function
        AND (p.proargtypes::oid[] && ARRAY['regproc', 'regprocedure']::regtype[]::oid[]
             OR EXISTS (SELECT FROM unnest(p.proargnames) AS a (name) WHERE a.name ~* '(expr|sql|query|statement|command|callback)')))
$sluice$;

-- Whether this transaction, because its snapshot is older, does not see all partitions and indexes that a table has now: to
-- PostgreSQL they are there when it plans a query. Functions of PostgreSQL tell what there is now, of indexes their size: each
-- has a page, and those that are known may grow meanwhile.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}is_outdated(p_relid oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    tree oid[] := ARRAY(SELECT t.relid FROM ${schema}.${prefix}partition_tree(p_relid) t ORDER BY 1);
    sizes bigint[];
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        RETURN false;
    ELSIF tree <> '{}' AND tree IS DISTINCT FROM ARRAY(SELECT t.relid::oid FROM pg_partition_tree(p_relid) t ORDER BY 1) THEN
        RETURN true;
    END IF;
    FOR n IN 1 .. 20 LOOP
        sizes := '{}';
        FOR place IN 1 .. 3 LOOP
            sizes := sizes || CASE place
                WHEN 2 THEN (SELECT sum(pg_indexes_size(r.oid)) FROM (SELECT p_relid UNION SELECT unnest(tree)) AS r (oid))
                ELSE (SELECT coalesce(sum(pg_relation_size(i.indexrelid, f.fork)), 0)
                      FROM pg_index i CROSS JOIN (VALUES ('main'), ('fsm'), ('vm'), ('init')) f (fork)
                      WHERE i.indrelid = ANY (p_relid || tree)) END::bigint;
        END LOOP;
        EXIT WHEN sizes[1] = sizes[3];
    END LOOP;
    RETURN sizes[1] IS DISTINCT FROM sizes[2];
END
$sluice$;

-- Why this account must not read the rows of a table, or of one partition of it; NULL if it may. PostgreSQL computes
-- constant parts of the expressions of indexes, statistics, constraints and partition keys whenever it plans a query,
-- with the rights of the reader.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}unreadable(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (WITH relations AS MATERIALIZED (
        SELECT p_relid AS relid UNION SELECT t.relid FROM ${schema}.${prefix}partition_tree(p_relid) t
    ), expressions AS (
        SELECT 'pg_class'::regclass AS classid, r.relid AS objid FROM relations r
        UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i JOIN relations r ON r.relid = i.indrelid
        UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k JOIN relations r ON r.relid = k.conrelid
                  WHERE k.contype IN ('c', 'x')
        UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext s JOIN relations r ON r.relid = s.stxrelid
    ), called AS (
        SELECT d.refobjid AS oid FROM expressions e JOIN pg_depend d ON d.classid = e.classid AND d.objid = e.objid
        WHERE d.refclassid = 'pg_proc'::regclass
        UNION SELECT o.oprcode FROM expressions e JOIN pg_depend d ON d.classid = e.classid AND d.objid = e.objid
              JOIN pg_operator o ON o.oid = d.refobjid WHERE d.refclassid = 'pg_operator'::regclass
    )
    SELECT coalesce(
        CASE WHEN ${schema}.${prefix}is_outdated(p_relid) THEN 'a transaction sees an older definition of it than there is' END,
        (SELECT format('row level security hides rows of it from %I', current_user) FROM relations r
         WHERE r.relid = p_relid AND row_security_active(r.relid)),
        (SELECT format('an index, constraint, statistic or partition key of it calls %s of %I, which must not run with the rights of %I',
             p.oid::regprocedure, pg_get_userbyid(p.proowner), current_user)
         FROM called f JOIN pg_proc p ON p.oid = f.oid
         WHERE p.oid >= 16384 AND (NOT ${schema}.${prefix}is_trusted(p.proowner) OR ${schema}.${prefix}runs_texts(p.oid))
         ORDER BY p.oid LIMIT 1)));
END
$sluice$;

-- The same for the first of some tables, computed like FITTING: once, and again after one of them was altered. p_tables:
-- the table and all that are below it. '?' if others are below it by now, or if the transaction may see an older
-- catalogue: then the function unreadable decides each time.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}unreadable_since(p_tables regclass[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN CASE WHEN current_setting('transaction_isolation') = 'read committed'
            AND NOT EXISTS (SELECT FROM ${schema}.${prefix}partition_tree(p_tables[1]) t WHERE t.relid <> ALL (p_tables))
        THEN ${schema}.${prefix}unreadable(p_tables[1]) ELSE '?' END;
END
$sluice$;

-- Writes DIFFER, once in a transaction, because rows of a table could not be read. The note stays until check_structure
-- deletes it.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}differ_once(p_schema text, p_table text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    said text := format('differs %I.%I', p_schema, p_table);
BEGIN
    IF NOT ${schema}.${prefix}is_noted(said) THEN
        PERFORM ${schema}.${prefix}note(said);
        PERFORM ${schema}.${prefix}ddl_item('DIFFER'::text, p_schema, p_table, p_reason, NULL::text);
    END IF;
END
$sluice$;
