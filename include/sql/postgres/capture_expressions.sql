-- Generates the expressions of capture functions, with a table's columns written out. Every name in the code is
-- qualified, operators included, because the code runs with the rights of the account that installed it, under any
-- search_path of the application. Every name of the application is quoted: PL/pgSQL reserves words that SQL does not.
-- Called by: capture.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.

-- How values of a type become text. Domains, arrays, ranges and composites are treated like the types that they consist
-- of.
--   plain: no value's text ever needs protection.
--   exact: two values are equal exactly if their texts are.
--   settings: the session settings on which the text depends.
--   form: how a value becomes text.
--     direct: by concat, which writes the same as a cast to text.
--     boolean, network, trimmed: by PostgreSQL's own cast to text, which differs from concat.
--     output: by the type's output function only, as concat writes it. A cast to text may be a function of anybody,
--     created now
--       or later, and would run with the rights of the account that installed this; that of bpchar loses trailing blanks.
--     octal: a byte above 127 as a backslash and three digits, as later releases write "char": PostgreSQL 14 writes the byte,
--       which is no text of most encodings.
--     doubtful: as output, but the text may not be valid in the server's encoding: "char" within other types on
--       PostgreSQL 14; the name of a role, which a database of another encoding may have created. Such a row is not kept.
-- Code that uses a cast or an operator of a value runs only after a check that the column still has the type
-- (guards.sql). Code without such a check (p_checked false, below) uses only output functions.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}type_traits(
    typid oid, OUT plain boolean, OUT exact boolean, OUT settings text[], OUT form text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off  -- see type_parts
AS $sluice$
    WITH parts AS MATERIALIZED (
        SELECT p.oid, p.depth FROM ${schema}.${prefix}type_parts(ARRAY[typid]) p
    ), leaves AS (
        SELECT DISTINCT t.oid, t.typname, t.typnamespace = 'pg_catalog'::regnamespace AS builtin, t.typtype
        FROM parts p JOIN pg_type t ON t.oid = p.oid
        WHERE t.typtype IN ('b', 'e', 'p') AND t.typcategory <> 'A'
    ), base AS (
        -- The type below any domains.
        SELECT t.oid, t.typname, t.typnamespace = 'pg_catalog'::regnamespace AS builtin, t.typtype
        FROM parts p JOIN pg_type t ON t.oid = p.oid
        WHERE t.typtype <> 'd' ORDER BY p.depth LIMIT 1
    ), needed AS (
        SELECT unnest(CASE
            WHEN l.typtype = 'e' THEN '{}'
            WHEN NOT l.builtin OR l.typtype = 'p' THEN '{DateStyle,TimeZone,IntervalStyle,extra_float_digits,bytea_output,lc_monetary,search_path}'
            WHEN l.typname IN ('date', 'timestamp') THEN '{DateStyle}'
            WHEN l.typname IN ('timestamptz', 'timetz') THEN '{DateStyle,TimeZone}'
            WHEN l.typname = 'interval' THEN '{IntervalStyle}'
            WHEN l.typname IN ('float4', 'float8', 'point', 'line', 'lseg', 'box', 'path', 'polygon', 'circle')
                THEN '{extra_float_digits}'
            WHEN l.typname = 'bytea' THEN '{bytea_output}'
            WHEN l.typname = 'money' THEN '{lc_monetary}'
            WHEN l.typname ~ '^reg' OR l.typname = 'aclitem' THEN '{search_path,quote_all_identifiers}'
            ELSE '{}'
        END::text[]) AS setting
        FROM leaves l
    )
    SELECT
        coalesce((SELECT bool_and(l.builtin AND l.typname IN (
            'bool', 'int2', 'int4', 'int8', 'oid', 'float4', 'float8', 'numeric', 'money', 'date', 'time', 'timetz',
            'timestamp', 'timestamptz', 'interval', 'bytea', 'uuid', 'inet', 'cidr', 'macaddr', 'macaddr8', 'bit',
            'varbit', 'point', 'line', 'lseg', 'box', 'path', 'polygon', 'pg_lsn', 'xid', 'xid8', 'cid', 'tid',
            'pg_snapshot', 'txid_snapshot', 'int2vector', 'oidvector')) FROM leaves l), false),
        coalesce((SELECT b.builtin AND b.typname IN (
            'bool', 'int2', 'int4', 'int8', 'oid', 'date', 'time', 'timestamp', 'timestamptz', 'uuid', 'text', 'varchar',
            'bytea', 'money', 'macaddr', 'pg_lsn', 'xid8') FROM base b), false),
        coalesce((SELECT array_agg(DISTINCT n.setting ORDER BY n.setting) FROM needed n), '{}'),
        -- Object IDs from 16384 on are not PostgreSQL's own.
        (SELECT CASE
            WHEN b.builtin AND b.typname = 'char' AND v.no_octal THEN 'octal'
            WHEN EXISTS (SELECT FROM leaves l WHERE l.builtin AND (l.typname IN ('aclitem', 'regrole') OR l.typname = 'char' AND v.no_octal))
                THEN 'doubtful'
            WHEN b.oid >= 16384 OR b.typname = 'bpchar' THEN 'output'
            WHEN b.typname = 'bool' THEN 'boolean'
            WHEN b.typname = 'inet' THEN 'network'
            -- A cast to text by a function, or made by somebody.
            WHEN EXISTS (SELECT FROM pg_cast c WHERE c.castsource = b.oid AND c.casttarget = 'text'::regtype
                         AND (c.castmethod = 'f' OR c.oid >= 16384)) THEN 'output'
            ELSE 'direct' END
         FROM base b CROSS JOIN (SELECT current_setting('server_version_num')::integer < 150000 AS no_octal) v)
$sluice$;

-- The code for one value's text, by its form; NULL for NULL. p_in_concat: as an argument of concat, which writes values
-- itself. p_checked: it runs only if the column is known to have its type.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}value_code(p_column text, p_form text, p_in_concat boolean, p_checked boolean) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE
        WHEN p_in_concat AND p_form IN ('direct', 'output', 'doubtful') THEN p_column
        WHEN p_checked AND p_form NOT IN ('output', 'doubtful', 'octal') THEN format('(%s)::pg_catalog.text', p_column)
        -- IS NULL would also be true of a composite of NULLs.
        ELSE format('CASE WHEN %s IS DISTINCT FROM NULL THEN ', p_column) || replace(CASE p_form
            WHEN 'boolean' THEN 'CASE WHEN %s COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) ''t'' THEN ''true'''
                ' WHEN %s COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) ''f'' THEN ''false'' ELSE %s END'
            -- The output leaves out the length of a whole address.
            WHEN 'network' THEN 'CASE WHEN pg_catalog.strpos(%s, ''/'') OPERATOR(pg_catalog.>) 0 THEN %s'
                ' WHEN pg_catalog.strpos(%s, '':'') OPERATOR(pg_catalog.>) 0 THEN pg_catalog.concat(%s, ''/128'')'
                ' ELSE pg_catalog.concat(%s, ''/32'') END'
            WHEN 'trimmed' THEN 'pg_catalog.rtrim(%s, '' '')'
            -- None of these functions looks whether its text is valid.
            WHEN 'octal' THEN 'CASE WHEN %s COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) pg_catalog.chr(92) THEN %s'
                ' ELSE pg_catalog.encode(pg_catalog.decode(%s, ''escape''), ''escape'') END'
            ELSE '%s' END, '%s', 'pg_catalog.concat(' || p_column || ')') || ' END'
    END
$sluice$;

-- The code for a call of concat with any number of arguments: PostgreSQL allows 100 in a call.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}concat_code(p_arguments text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    level text[] := p_arguments;
BEGIN
    IF cardinality(level) = 0 THEN
        RETURN quote_literal('') || '::pg_catalog.text';
    END IF;
    LOOP
        SELECT array_agg(call ORDER BY chunk) INTO level FROM (
            SELECT (n - 1) / 96 AS chunk, 'pg_catalog.concat(' || string_agg(argument, ', ' ORDER BY n) || ')' AS call
            FROM unnest(level) WITH ORDINALITY AS a (argument, n) GROUP BY 1) AS calls;
        EXIT WHEN cardinality(level) = 1;
    END LOOP;
    RETURN level[1];
END
$sluice$;

-- Of earlier releases, which looked the columns up in each of these functions.
DROP FUNCTION IF EXISTS ${schema}.${prefix}captured_columns(oid), ${schema}.${prefix}row_code(oid, text),
    ${schema}.${prefix}from_record_code(oid, boolean), ${schema}.${prefix}protection_code(oid, text, boolean),
    ${schema}.${prefix}content_code(oid, text, text), ${schema}.${prefix}oldcontent_code(oid, text, text, boolean),
    ${schema}.${prefix}oldcontent_code(${schema}.${prefix}captured_column[], text, text, boolean),
    ${schema}.${prefix}guid_code(oid, text, text, boolean),
    ${schema}.${prefix}insertion_code(text, text, oid, text, text, text, text, text, text),
    ${schema}.${prefix}lockstep_code(text, text, oid, text), ${schema}.${prefix}key_index(oid),
    ${schema}.${prefix}guard_code(text, text, oid, text), ${schema}.${prefix}check_code(oid, text, boolean),
    ${schema}.${prefix}settle_code(text, text, oid), ${schema}.${prefix}settings_code(oid, text),
    ${schema}.${prefix}body_code(text, text, oid, text, boolean, boolean, boolean, boolean, text, text),
    ${schema}.${prefix}capture_mode(oid);

-- A replicated column, with everything that its code needs.
DO $sluice$
BEGIN
    IF to_regtype($s$ ${schema}.${prefix}captured_column$s$) IS NULL THEN
        CREATE TYPE ${schema}.${prefix}captured_column AS (attname text, opening text, atttype text, nullable boolean, keypos integer,
            plain boolean, exact boolean, form text, settings text[]);
    END IF;
END
$sluice$;

-- The replicated columns of a table, in their order: looked up once for all of its code. Generated columns are left out:
-- each database computes them.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}columns_of(p_relid oid) RETURNS ${schema}.${prefix}captured_column[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET enable_hashjoin = off SET enable_mergejoin = off  -- see type_parts
AS $sluice$
BEGIN
    RETURN (WITH found AS MATERIALIZED (
        SELECT * FROM ${schema}.${prefix}cols_all v WHERE v.relid = p_relid AND v.attgenerated = ''
    ), traits AS MATERIALIZED (
        SELECT d.atttypid, t.* FROM (SELECT DISTINCT f.atttypid FROM found f) d
        CROSS JOIN LATERAL ${schema}.${prefix}type_traits(d.atttypid) t
    )
    SELECT coalesce(array_agg(ROW(f.attname, '<col name="' || ${schema}.${prefix}xml_escape(f.attname) || '"', f.atttype,
        NOT f.attnotnull, f.keypos, t.plain, t.exact,
        -- The padding that the cast takes off a character(n) comes back by itself.
        CASE WHEN f.atttype ~ '^character[(][0-9]+[)]$' THEN 'trimmed' ELSE t.form END,
        t.settings)::${schema}.${prefix}captured_column ORDER BY f.attnum), '{}')
    FROM found f JOIN traits t USING (atttypid));
END
$sluice$;

-- The code for a row as a value of type record, with fields f1, f2, …: PostgreSQL would prefer a function for rows of
-- this table, which anybody may create, to Sluice's function for any record.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}row_code(p_columns ${schema}.${prefix}captured_column[], p_row text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format('ROW(%s)', string_agg(p_row || '.' || ${schema}.${prefix}quoted(c.attname), ', ')) FROM unnest(p_columns) c
$sluice$;

-- A record r in a FROM clause, as a row named q. p_named: its fields have the names of the columns, like a whole row of a
-- transition table; otherwise it is one of row_code.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}from_record_code(p_columns ${schema}.${prefix}captured_column[], p_named boolean) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN count(*) = 0 THEN '(SELECT) AS q' ELSE format('(SELECT %s) AS q (%s)',
        string_agg('r.' || CASE WHEN p_named THEN ${schema}.${prefix}quoted(c.attname) ELSE 'f' || n END, ', ' ORDER BY n),
        string_agg(${schema}.${prefix}quoted(c.attname), ', ' ORDER BY n)) END
    FROM unnest(p_columns) WITH ORDINALITY AS
        c (attname, opening, atttype, nullable, keypos, plain, exact, form, settings, n)
$sluice$;

-- The code of "a text of the row needs protection"; NULL where none ever does.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}protection_code(p_columns ${schema}.${prefix}captured_column[], p_row text, p_checked boolean) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN count(*) > 0 THEN format('%s COLLATE pg_catalog."C" OPERATOR(pg_catalog.~) %L',
        CASE WHEN count(*) = 1 THEN min(v.code) ELSE ${schema}.${prefix}concat_code(array_agg(v.code ORDER BY v.n)) END,
        E'[<&\\x01-\\x1f\\x7f-\\x9f]|]]>') END
    FROM (SELECT ${schema}.${prefix}value_code(p_row || '.' || ${schema}.${prefix}quoted(c.attname), c.form, false, p_checked) AS code, n
          FROM unnest(p_columns) WITH ORDINALITY AS
              c (attname, opening, atttype, nullable, keypos, plain, exact, form, settings, n)
          WHERE NOT c.plain) v
$sluice$;

-- How many bytes the text of a value has; more than any, if PostgreSQL cannot make it. It writes nothing, so that the
-- exception costs no transaction ID.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}text_bytes(p_value anyelement) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN octet_length(concat(p_value));
EXCEPTION WHEN OTHERS THEN
    RETURN 2147483647;
END
$sluice$;

-- Whether the text of a value is valid in the server's encoding.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}is_valid(p_value anyelement) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    PERFORM convert_to(concat(p_value), getdatabaseencoding());
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    RETURN false;
END
$sluice$;

-- The code of "the texts of the row cannot be kept": they come to more than 256 MB, or one is not valid in the server's
-- encoding; NULL where that never happens. PostgreSQL makes no text of 1 GB, takes four times its memory to search one, and
-- writes no row of 1 GB that is not in pieces: the capture must not fail a statement for that.
-- The stored size, which may be compressed to a 255th, tells of most rows that they are smaller.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}oversized_code(
    p_columns ${schema}.${prefix}captured_column[], p_row text, p_checked boolean
) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT nullif(concat_ws(' OR ', CASE WHEN count(*) > 0 THEN concat_ws(' OPERATOR(pg_catalog.+) ', string_agg(p.known, ' OPERATOR(pg_catalog.+) '),
            CASE WHEN count(p.stored) > 0 THEN format('CASE WHEN %s OPERATOR(pg_catalog.>) 1048576 THEN %s ELSE 0 END',
                string_agg(p.stored, ' OPERATOR(pg_catalog.+) '), string_agg(p.bytes, ' OPERATOR(pg_catalog.+) ')) END)
        || ' OPERATOR(pg_catalog.>) 268435456' END,
        (SELECT string_agg(format('NOT %s(%s.%s)', ${schema}.${prefix}own('is_valid'), p_row, ${schema}.${prefix}quoted(d.attname)), ' OR ')
         FROM unnest(p_columns) d WHERE d.form = 'doubtful')), '')
    FROM (
        -- In groups, as one long sum would be parsed as deeply as it is long.
        SELECT '(0::pg_catalog.int8' || string_agg(' OPERATOR(pg_catalog.+) ' || m.size, '') FILTER (WHERE m.known) || ')' AS known,
               '(0::pg_catalog.int8' || string_agg(' OPERATOR(pg_catalog.+) ' || m.size, '') FILTER (WHERE NOT m.known) || ')' AS stored,
               '(0::pg_catalog.int8' || string_agg(format(' OPERATOR(pg_catalog.+) coalesce(%s(%s), 0)',
                   ${schema}.${prefix}own('text_bytes'), m.value), '') FILTER (WHERE NOT m.known) || ')' AS bytes
        FROM (
            SELECT c.value, c.chunk, c.known, replace(CASE WHEN c.nullable THEN 'coalesce(%s, 0)' ELSE '%s' END, '%s',
                CASE WHEN NOT c.known THEN 'pg_catalog.pg_column_size(' || c.value || ')'
                    -- Known without reading the value. Bytes are written in two digits each.
                    WHEN c.atttype = 'bytea' THEN '(2 OPERATOR(pg_catalog.*) pg_catalog.octet_length(' || c.value || ')::pg_catalog.int8)'
                    ELSE 'pg_catalog.octet_length(' || c.value || ')' END) AS size
            FROM (SELECT p_row || '.' || ${schema}.${prefix}quoted(x.attname) AS value, x.atttype, x.nullable,
                         p_checked AND x.atttype IN ('text', 'character varying', 'bytea') AS known,
                         (row_number() OVER () - 1) / 96 AS chunk
                  FROM unnest(p_columns) x
                  WHERE x.atttype !~ ('^(boolean|smallint|integer|bigint|oid|real|double precision|money|date|uuid|inet|cidr'
                      '|macaddr8?|pg_lsn|xid8?|point|line|lseg|box|circle|"char"|name|numeric(\([0-9,-]+\))?'
                      '|(time|timestamp|interval)[^[]*|character( varying)?\([0-9]{1,4}\))$')) c) m
        GROUP BY m.chunk) p
$sluice$;

-- The code of a content, or of the mark in its place if the condition p_oversized holds: then the change says which table
-- changed, but not how, and slaves leave the table out until it is loaded again.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}kept_code(p_content text, p_oversized text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN p_oversized IS NULL THEN p_content
        ELSE format('CASE WHEN %s THEN %L ELSE %s END', p_oversized, '<not-kept/>', p_content) END
$sluice$;

-- The code for the CONTENT of a whole row. p_row names the row: NEW, OLD or an alias. One test of all texts of the row
-- decides between plain concatenation and the protection of each text (p_protect ''). 'always': each text is protected; with
-- this and with 'variable', the caller looks whether the row is too large.
-- Preparing that code for every statement or row would cost a microsecond or two, even if it is not needed: 'variable'
-- takes the value of the variable PROTECTED, unless it is NULL; any other value names a function of the row. With these
-- two, the code runs only if the columns are known to have their types.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}content_code(p_columns ${schema}.${prefix}captured_column[], p_row text, p_protect text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    c record;
    value text;
    opening text;
    checked boolean := p_protect NOT IN ('', 'always');
    fast text[] := '{}';
    protected text[] := '{}';
    test text := ${schema}.${prefix}protection_code(p_columns, p_row, checked);
    content text;
    fast_end text := '';        -- the closing tag still owed to the last column
    protected_end text := '';
BEGIN
    FOR c IN SELECT * FROM unnest(p_columns) LOOP
        value := ${schema}.${prefix}value_code(p_row || '.' || ${schema}.${prefix}quoted(c.attname), c.form, c.plain, checked);
        opening := CASE WHEN c.nullable
            THEN format('CASE WHEN %s.%s IS NOT DISTINCT FROM NULL THEN %%L ELSE %%L END', p_row,
                replace(${schema}.${prefix}quoted(c.attname), '%', '%%'))
            ELSE '%2$L' END;
        fast := fast || format(opening, fast_end || c.opening || ' type="null">', fast_end || c.opening || '>') || value;
        fast_end := '</col>';
        IF c.plain THEN
            protected := protected
                || format(opening, protected_end || c.opening || ' type="null">', protected_end || c.opening || '>') || value;
            protected_end := '</col>';
        ELSE
            protected := protected || quote_literal(protected_end)
                || format('%s(%L::pg_catalog.text, %s)', ${schema}.${prefix}own('col2xml'), c.attname, value);
            protected_end := '';
        END IF;
    END LOOP;
    fast := fast || quote_literal(fast_end);
    IF test IS NULL THEN
        content := ${schema}.${prefix}concat_code(fast);
    ELSIF p_protect = 'always' THEN
        content := ${schema}.${prefix}concat_code(protected || quote_literal(protected_end));
    ELSIF p_protect = 'variable' THEN
        content := format('coalesce(protected, %s)', ${schema}.${prefix}concat_code(fast));
    ELSE
        content := format('CASE WHEN %s THEN %s ELSE %s END', test,
            CASE WHEN p_protect = '' THEN ${schema}.${prefix}concat_code(protected || quote_literal(protected_end))
                -- An alias alone would mean a column of that name, if there is one.
                ELSE format('%s(%s.*)', p_protect, p_row) END,
            ${schema}.${prefix}concat_code(fast));
    END IF;
    RETURN ${schema}.${prefix}kept_code(content,
        CASE WHEN p_protect NOT IN ('always', 'variable') THEN ${schema}.${prefix}oversized_code(p_columns, p_row, checked) END);
END
$sluice$;

-- The CONTENT of a row of a registered table, by hand: SELECT demo_col2xml(o) FROM orders o.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}col2xml(r anyelement) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    relid_of_row oid := (SELECT t.typrelid FROM pg_type t WHERE t.oid = pg_typeof(r));
    content text;
BEGIN
    IF NOT EXISTS (SELECT FROM ${schema}.${prefix}cols_view v WHERE v.relid = relid_of_row) THEN
        RAISE EXCEPTION '% is no row of a registered table', pg_typeof(r) USING ERRCODE = 'wrong_object_type';
    END IF;
    EXECUTE format('SELECT %s FROM (SELECT ($1).*) n', ${schema}.${prefix}content_code(${schema}.${prefix}columns_of(relid_of_row), 'n', '')) INTO content USING r;
    RETURN content;
END
$sluice$;

-- The code of "this column's text differs between the two rows".
CREATE OR REPLACE FUNCTION ${schema}.${prefix}changed_code(
    p_new text, p_old text, p_attname text, p_form text, p_plain boolean, p_exact boolean, p_nullable boolean, p_checked boolean
) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    n text := p_new || '.' || ${schema}.${prefix}quoted(p_attname);
    o text := p_old || '.' || ${schema}.${prefix}quoted(p_attname);
    value_n text;
    value_o text;
BEGIN
    IF p_exact AND p_plain AND p_checked THEN
        value_n := n;
        value_o := o;
    ELSE
        value_n := '(' || ${schema}.${prefix}value_code(n, p_form, false, p_checked) || ') COLLATE pg_catalog."C"';
        value_o := '(' || ${schema}.${prefix}value_code(o, p_form, false, p_checked) || ') COLLATE pg_catalog."C"';
    END IF;
    IF NOT p_nullable THEN
        RETURN format('%s OPERATOR(pg_catalog.<>) %s', value_o, value_n);
    END IF;
    -- Nothing qualifies the operator behind IS DISTINCT FROM: capture functions of updates pin search_path.
    RETURN format('%s IS DISTINCT FROM %s', value_o, value_n);
END
$sluice$;

-- The code for the OLDCONTENT of an update: the columns of the key, and each column whose text changed. p_measured: with a
-- look whether a row is too large.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}oldcontent_code(
    p_columns ${schema}.${prefix}captured_column[], p_new text, p_old text, p_checked boolean, p_measured boolean
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    c record;
    value text;
    element text;
    elements text[] := '{}';
BEGIN
    FOR c IN SELECT * FROM unnest(p_columns) LOOP
        value := ${schema}.${prefix}value_code(p_old || '.' || ${schema}.${prefix}quoted(c.attname), c.form, c.plain, p_checked);
        IF NOT c.plain THEN
            element := format('%s(%L::pg_catalog.text, %s)', ${schema}.${prefix}own('col2xml'), c.attname, value);
        ELSE
            element := format('pg_catalog.concat(%L, %s, %L)', c.opening || '>', value, '</col>');
            IF c.nullable THEN
                element := format('CASE WHEN %s.%s IS NOT DISTINCT FROM NULL THEN %L ELSE %s END',
                    p_old, ${schema}.${prefix}quoted(c.attname), c.opening || ' type="null"></col>', element);
            END IF;
        END IF;
        IF c.keypos = 0 THEN
            element := format('CASE WHEN %s THEN %s END', ${schema}.${prefix}changed_code(
                p_new, p_old, c.attname, c.form, c.plain, c.exact, c.nullable, p_checked), element);
        END IF;
        elements := elements || element;
    END LOOP;
    RETURN ${schema}.${prefix}kept_code(${schema}.${prefix}concat_code(elements), CASE WHEN p_measured THEN
        ${schema}.${prefix}oversized_code(p_columns, p_old, p_checked) || ' OR '
            || ${schema}.${prefix}oversized_code(p_columns, p_new, p_checked) END);
END
$sluice$;

-- The code for a row's GUID, the text of its key: the column's own text, or for several columns each as length:text.
-- Empty for a table without a key. Unless p_old is NULL, it is NULL if the key's text differs between the two rows.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}guid_code(p_columns ${schema}.${prefix}captured_column[], p_row text, p_old text, p_checked boolean) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    c record;
    value text;
    parts text[] := '{}';
    changes text[] := '{}';
    guid text;
BEGIN
    FOR c IN SELECT * FROM unnest(p_columns) WHERE keypos > 0 ORDER BY keypos LOOP
        value := ${schema}.${prefix}value_code(p_row || '.' || ${schema}.${prefix}quoted(c.attname), c.form, false, p_checked);
        parts := parts || format('pg_catalog.length(%s)', value) || quote_literal(':') || value;
        changes := changes || ${schema}.${prefix}changed_code(p_row, p_old, c.attname, c.form, c.plain, c.exact, false, p_checked);
    END LOOP;
    guid := CASE cardinality(changes)
        WHEN 0 THEN quote_literal('')
        WHEN 1 THEN value
        ELSE ${schema}.${prefix}concat_code(parts)
    END;
    IF p_old IS NULL OR cardinality(changes) = 0 THEN
        RETURN guid;
    END IF;
    RETURN format('CASE WHEN %s THEN NULL ELSE %s END', array_to_string(changes, ' OR '), guid);
END
$sluice$;
