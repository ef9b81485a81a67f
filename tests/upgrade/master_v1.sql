-- What the first version of the resources, version 1, installed on a master (prefix demo_, schema public).
-- A record: never edited. tests/upgrade/test_upgrade.py takes it over.
CREATE SEQUENCE IF NOT EXISTS public.demo_seq AS bigint MINVALUE 1 NO CYCLE CACHE 1;

CREATE TABLE IF NOT EXISTS public.demo_info (
    name text PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE IF NOT EXISTS public.demo_items (
    repl_key bigint NOT NULL DEFAULT nextval($s$ public.demo_seq$s$::regclass),
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
    CONSTRAINT demo_items_pkey PRIMARY KEY (repl_key)
);

CREATE TABLE IF NOT EXISTS public.demo_tables (
    catalogname text NOT NULL DEFAULT ' ',
    schemaname text NOT NULL DEFAULT ' ',
    tablename text NOT NULL,
    actions char(3) CONSTRAINT demo_tables_actions CHECK (actions ~ '^[IUD]* *$'),
    status text NOT NULL DEFAULT 'CREATING' CONSTRAINT demo_tables_status CHECK (status IN ('CREATING', 'OK')),
    repl_key bigint NOT NULL DEFAULT nextval($s$ public.demo_seq$s$::regclass),
    trigger_name text NOT NULL,
    debug integer NOT NULL DEFAULT 0 CONSTRAINT demo_tables_debug CHECK (debug IN (0, 1)),
    CONSTRAINT demo_tables_pkey PRIMARY KEY (catalogname, schemaname, tablename)
);

CREATE TABLE IF NOT EXISTS public.demo_current_tables (
    relname text NOT NULL,
    schemaname text NOT NULL,
    CONSTRAINT demo_current_tables_pkey PRIMARY KEY (schemaname, relname)
);

CREATE TABLE IF NOT EXISTS public.demo_debug_table (
    repl_key bigint NOT NULL DEFAULT nextval($s$ public.demo_seq$s$::regclass),
    line text
);

CREATE TABLE IF NOT EXISTS public.demo_longs_table (
    repl_key bigint NOT NULL,
    content text,
    CONSTRAINT demo_longs_table_pkey PRIMARY KEY (repl_key)
);

CREATE OR REPLACE VIEW public.demo_cols_view AS
WITH replicated AS (
    SELECT c.oid, t.schemaname, t.tablename, c.relkind
    FROM public.demo_tables t
    JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename AND c.relkind IN ('r', 'p')
)
SELECT r.schemaname,
       r.tablename,
       r.oid AS relid,
       a.attnum::integer AS attnum,
       a.attname::text AS attname,
       a.atttypid,
       pg_catalog.format_type(a.atttypid, a.atttypmod) AS atttype,
       a.attnotnull AND NOT EXISTS (
           SELECT FROM pg_catalog.pg_constraint u
           WHERE u.conrelid = a.attrelid AND u.contype = 'n' AND NOT u.convalidated AND u.conkey = ARRAY[a.attnum]
       ) AS attnotnull,
       pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS attdefault,
       a.attidentity::text AS attidentity,
       a.attgenerated::text AS attgenerated,
       CASE WHEN a.attcollation <> y.typcollation THEN
           (SELECT pg_catalog.format('%I.%I', cn.nspname, co.collname) FROM pg_catalog.pg_collation co
            JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) END AS attcollation,
       coalesce(pg_catalog.array_position(k.indkey[0:k.indnkeyatts - 1], a.attnum), 0) AS keypos,
       CASE WHEN a.atthasmissing THEN (a.attmissingval::text::text[])[1]
            WHEN r.relkind = 'p' THEN (
                SELECT (l.attmissingval::text::text[])[1]
                FROM pg_catalog.pg_partition_tree(r.oid) p
                JOIN pg_catalog.pg_attribute l ON l.attrelid = p.relid AND l.attname = a.attname AND l.atthasmissing
                LIMIT 1) END AS attmissing
FROM replicated r
JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN LATERAL (
    SELECT i.indkey, i.indnkeyatts
    FROM pg_catalog.pg_index i
    WHERE i.indrelid = r.oid
      AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (
          SELECT FROM pg_catalog.pg_attribute k
          WHERE k.attrelid = i.indrelid AND k.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
            AND (NOT k.attnotnull OR k.attgenerated <> '' OR EXISTS (
                SELECT FROM pg_catalog.pg_constraint u
                WHERE u.conrelid = k.attrelid AND u.contype = 'n' AND NOT u.convalidated AND u.conkey = ARRAY[k.attnum])))
    ORDER BY i.indisprimary DESC, i.indexrelid
    LIMIT 1
) k ON true;

CREATE TABLE IF NOT EXISTS public.demo_cols_table AS SELECT * FROM public.demo_cols_view WITH NO DATA;

CREATE TABLE IF NOT EXISTS public.demo_captures (
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
    CONSTRAINT demo_captures_pkey PRIMARY KEY (schemaname, tablename)
);

INSERT INTO public.demo_info (name, value) VALUES ('version', '1') ON CONFLICT (name) DO NOTHING;

CREATE OR REPLACE FUNCTION public.demo_own(name text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN $s$ public$s$::regnamespace::text || '.' || quote_ident('demo_' || name);

CREATE OR REPLACE FUNCTION public.demo_needs_prot(value text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN value COLLATE "C" ~ '[\x01-\x1f\x7f-\x9f]|]]>' THEN 2
    WHEN value COLLATE "C" ~ '[<&]' THEN 1
    ELSE 0
END;

CREATE OR REPLACE FUNCTION public.demo_xml_escape(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN replace(replace(replace(replace(value, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;');

CREATE OR REPLACE FUNCTION public.demo_col2xml(name text, value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $sluice$
BEGIN
    IF value IS NULL THEN
        RETURN pg_catalog.concat('<col name="', public.demo_xml_escape(name), '" type="null"></col>');
    END IF;
    CASE public.demo_needs_prot(value)
        WHEN 0 THEN
            RETURN pg_catalog.concat('<col name="', public.demo_xml_escape(name), '">', value, '</col>');
        WHEN 1 THEN
            RETURN pg_catalog.concat('<col name="', public.demo_xml_escape(name), '"><![CDATA[', value, ']]></col>');
        ELSE
            RETURN pg_catalog.concat('<col name="', public.demo_xml_escape(name), '" encoding="base64">',
                pg_catalog.translate(pg_catalog.encode(pg_catalog.convert_to(value, 'UTF8'), 'base64'), E'\n', ''), '</col>');
    END CASE;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_increment() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT nextval($s$ public.demo_seq$s$::regclass);
END;

CREATE OR REPLACE FUNCTION public.demo_debug(line text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO public.demo_debug_table (repl_key, line) VALUES (public.demo_increment(), line);
END;

CREATE OR REPLACE FUNCTION public.demo_position(
    OUT low bigint, OUT next_xid bigint, OUT snapshot pg_snapshot, OUT high bigint, OUT "time" timestamptz
)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    "time" := clock_timestamp();
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END INTO low FROM public.demo_seq s;
    IF pg_current_xact_id_if_assigned() IS NULL THEN
        next_xid := (age('3'::xid)::bigint + 3) & 4294967295;
    END IF;
    snapshot := pg_current_snapshot();
    IF next_xid IS NOT NULL THEN
        next_xid := pg_snapshot_xmax(snapshot)::text::bigint
            + ((next_xid - pg_snapshot_xmax(snapshot)::text::bigint + 2147483648) & 4294967295) - 2147483648;
    END IF;
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END INTO high FROM public.demo_seq s;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_relation(p_schema text, p_table text) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = p_schema AND c.relname = p_table
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_desc_column(c public.demo_cols_table) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '<colname pos="' || c.attnum || '" type="' || public.demo_xml_escape(c.atttype)
    || '" nullable="' || (NOT c.attnotnull)::text || '"'
    || CASE WHEN c.keypos > 0 THEN ' key="' || c.keypos || '"' ELSE '' END
    || coalesce(' default="' || public.demo_xml_escape(CASE WHEN c.attgenerated = '' THEN c.attdefault END) || '"', '')
    || CASE WHEN c.attidentity <> '' THEN ' identity="' || c.attidentity || '"' ELSE '' END
    || CASE WHEN c.attgenerated <> '' THEN ' generated="' || c.attgenerated || '" expression="'
        || public.demo_xml_escape(c.attdefault) || '"' ELSE '' END
    || coalesce(' collation="' || public.demo_xml_escape(c.attcollation) || '"', '')
    || coalesce(' missing="' || public.demo_xml_escape(c.attmissing) || '"', '')
    || '>' || public.demo_xml_escape(c.attname) || '</colname>';

CREATE OR REPLACE FUNCTION public.demo_describe(p_schema text, p_table text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off
AS $sluice$
    SELECT '<desc schema="' || public.demo_xml_escape(p_schema) || '" table="' || public.demo_xml_escape(p_table) || '">'
        || coalesce(string_agg(public.demo_desc_column(ROW(v.*)::public.demo_cols_table), '' ORDER BY v.attnum), '') || '</desc>'
    FROM public.demo_cols_view v
    WHERE v.schemaname = p_schema AND v.tablename = p_table
    HAVING public.demo_relation(p_schema, p_table) IS NOT NULL
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_described(p_schema text, p_table text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT '<desc schema="' || public.demo_xml_escape(p_schema) || '" table="' || public.demo_xml_escape(p_table) || '">'
        || coalesce(string_agg(public.demo_desc_column(c), '' ORDER BY c.attnum), '') || '</desc>'
    FROM public.demo_cols_table c
    WHERE c.schemaname = p_schema AND c.tablename = p_table
    HAVING EXISTS (SELECT FROM public.demo_current_tables t WHERE t.schemaname = p_schema AND t.relname = p_table)
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_origins() RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT ''::text || coalesce((SELECT string_to_array(i.value, ',') FROM public.demo_info i WHERE i.name = 'cascade'), '{}')
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_replayed_code() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN o = ARRAY[''] THEN $s$(coalesce(pg_catalog.current_setting('sluice.origin', true), '') OPERATOR(pg_catalog.<>) '')$s$
        ELSE format($s$(coalesce(pg_catalog.current_setting('sluice.origin', true), '') OPERATOR(pg_catalog.<>) ALL (%L::text[]))$s$, o) END
    FROM public.demo_origins() o
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_dbid_code() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN public.demo_origins() = ARRAY[''] THEN quote_literal(current_database())
        ELSE format($s$coalesce(nullif(pg_catalog.current_setting('sluice.origin', true), ''), %L)$s$, current_database()) END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_always_code(p_relation text, p_trigger text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN public.demo_origins() = ARRAY[''] THEN ''
        ELSE format('; ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', p_relation, p_trigger) END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_type_traits(
    typid oid, OUT plain boolean, OUT exact boolean, OUT settings text[], OUT form text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
SET enable_hashjoin = off SET enable_mergejoin = off
AS $sluice$
    WITH RECURSIVE parts (oid, depth) AS (
        SELECT typid, 0
        UNION
        SELECT x.oid, p.depth + 1
        FROM parts p
        JOIN pg_type t ON t.oid = p.oid
        CROSS JOIN LATERAL (
            SELECT t.typbasetype WHERE t.typtype = 'd'
            UNION ALL SELECT t.typelem WHERE t.typtype = 'b' AND t.typcategory = 'A'
            UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = t.oid OR r.rngmultitypid = t.oid
            UNION ALL SELECT a.atttypid FROM pg_attribute a
                      WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        ) AS x (oid)
        WHERE p.depth < 20
    ), leaves AS (
        SELECT DISTINCT t.oid, t.typname, t.typnamespace = 'pg_catalog'::regnamespace AS builtin, t.typtype
        FROM parts p JOIN pg_type t ON t.oid = p.oid
        WHERE t.typtype IN ('b', 'e', 'p') AND t.typcategory <> 'A'
    ), base AS (
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
        (SELECT CASE
            WHEN b.oid >= 16384 OR b.typname = 'bpchar' OR max(c.oid) >= 16384 THEN 'output'
            WHEN max(c.oid) IS NOT NULL THEN 'cast'
            ELSE 'direct' END
         FROM base b LEFT JOIN pg_cast c ON c.castsource = b.oid AND c.casttarget = 'text'::regtype
             AND (c.castmethod = 'f' OR c.oid >= 16384)
         GROUP BY b.oid, b.typname)
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_value_code(p_column text, p_form text, p_in_concat boolean) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE
        WHEN p_in_concat AND p_form <> 'cast' THEN p_column
        WHEN p_form = 'output' THEN format('CASE WHEN %1$s IS DISTINCT FROM NULL THEN pg_catalog.concat(%1$s) END', p_column)
        ELSE format('(%s)::pg_catalog.text', p_column)
    END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_concat_code(p_arguments text[]) RETURNS text
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

CREATE OR REPLACE FUNCTION public.demo_captured_columns(
    p_relid oid, OUT attname text, OUT opening text, OUT atttype text, OUT nullable boolean, OUT keypos integer,
    OUT plain boolean, OUT exact boolean, OUT form text, OUT settings text[]
)
RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
SET enable_hashjoin = off SET enable_mergejoin = off  -- as type_traits
AS $sluice$
    WITH found AS MATERIALIZED (
        SELECT * FROM public.demo_cols_view v WHERE v.relid = p_relid AND v.attgenerated = ''
    ), traits AS MATERIALIZED (
        SELECT d.atttypid, t.* FROM (SELECT DISTINCT f.atttypid FROM found f) d
        CROSS JOIN LATERAL public.demo_type_traits(d.atttypid) t
    )
    SELECT f.attname, '<col name="' || public.demo_xml_escape(f.attname) || '"', f.atttype, NOT f.attnotnull, f.keypos,
        t.plain, t.exact, CASE WHEN f.atttype ~ '^character[(][0-9]+[)]$' THEN 'cast' ELSE t.form END, t.settings
    FROM found f JOIN traits t USING (atttypid)
    ORDER BY f.attnum
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_content_code(p_relid oid, p_row text, p_protect text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    c record;
    value text;
    opening text;
    fast text[] := '{}';
    protected text[] := '{}';
    texts text[] := '{}';
    fast_end text := '';        -- the closing tag still owed to the last column
    protected_end text := '';
BEGIN
    FOR c IN SELECT * FROM public.demo_captured_columns(p_relid) LOOP
        value := public.demo_value_code(p_row || '.' || quote_ident(c.attname), c.form, c.plain);
        opening := CASE WHEN c.nullable
            THEN format('CASE WHEN %s.%I IS NOT DISTINCT FROM NULL THEN %%L ELSE %%L END', p_row, replace(c.attname, '%', '%%'))
            ELSE '%2$L' END;
        fast := fast || format(opening, fast_end || c.opening || ' type="null">', fast_end || c.opening || '>') || value;
        fast_end := '</col>';
        IF c.plain THEN
            protected := protected
                || format(opening, protected_end || c.opening || ' type="null">', protected_end || c.opening || '>') || value;
            protected_end := '</col>';
        ELSE
            texts := texts || value;
            protected := protected || quote_literal(protected_end)
                || format('%s(%L, %s)', public.demo_own('col2xml'), c.attname, value);
            protected_end := '';
        END IF;
    END LOOP;
    fast := fast || quote_literal(fast_end);
    IF cardinality(texts) = 0 THEN
        RETURN public.demo_concat_code(fast);
    END IF;
    IF p_protect = 'always' THEN
        RETURN public.demo_concat_code(protected || quote_literal(protected_end));
    END IF;
    RETURN format('CASE WHEN %s COLLATE pg_catalog."C" OPERATOR(pg_catalog.~) %L THEN %s ELSE %s END',
        CASE WHEN cardinality(texts) = 1 THEN texts[1] ELSE public.demo_concat_code(texts) END,
        E'[<&\\x01-\\x1f\\x7f-\\x9f]|]]>',
        CASE WHEN p_protect = '' THEN public.demo_concat_code(protected || quote_literal(protected_end))
            ELSE format('%s(%s)', p_protect, p_row || CASE WHEN p_row IN ('NEW', 'OLD') THEN '' ELSE '.*' END) END,
        public.demo_concat_code(fast));
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_col2xml(r anyelement) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    relid_of_row oid := (SELECT t.typrelid FROM pg_type t WHERE t.oid = pg_typeof(r));
    content text;
BEGIN
    IF NOT EXISTS (SELECT FROM public.demo_cols_view v WHERE v.relid = relid_of_row) THEN
        RAISE EXCEPTION '% is no row of a registered table', pg_typeof(r) USING ERRCODE = 'wrong_object_type';
    END IF;
    EXECUTE format('SELECT %s FROM (SELECT ($1).*) n', public.demo_content_code(relid_of_row, 'n', '')) INTO content USING r;
    RETURN content;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_changed_code(
    p_new text, p_old text, p_attname text, p_form text, p_plain boolean, p_exact boolean, p_nullable boolean
) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    n text := p_new || '.' || quote_ident(p_attname);
    o text := p_old || '.' || quote_ident(p_attname);
    value_n text;
    value_o text;
BEGIN
    IF p_exact AND p_plain THEN
        value_n := n;
        value_o := o;
    ELSE
        value_n := '(' || public.demo_value_code(n, p_form, false) || ') COLLATE pg_catalog."C"';
        value_o := '(' || public.demo_value_code(o, p_form, false) || ') COLLATE pg_catalog."C"';
    END IF;
    IF NOT p_nullable THEN
        RETURN format('%s OPERATOR(pg_catalog.<>) %s', value_o, value_n);
    END IF;
    RETURN format('%s IS DISTINCT FROM %s', value_o, value_n);
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_oldcontent_code(p_relid oid, p_new text, p_old text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    c record;
    value text;
    element text;
    elements text[] := '{}';
BEGIN
    FOR c IN SELECT * FROM public.demo_captured_columns(p_relid) LOOP
        value := public.demo_value_code(p_old || '.' || quote_ident(c.attname), c.form, c.plain);
        IF NOT c.plain THEN
            element := format('%s(%L, %s)', public.demo_own('col2xml'), c.attname, value);
        ELSE
            element := format('pg_catalog.concat(%L, %s, %L)', c.opening || '>', value, '</col>');
            IF c.nullable THEN
                element := format('CASE WHEN %s.%I IS NOT DISTINCT FROM NULL THEN %L ELSE %s END',
                    p_old, c.attname, c.opening || ' type="null"></col>', element);
            END IF;
        END IF;
        IF c.keypos = 0 THEN
            element := format('CASE WHEN %s THEN %s END', public.demo_changed_code(
                p_new, p_old, c.attname, c.form, c.plain, c.exact, c.nullable), element);
        END IF;
        elements := elements || element;
    END LOOP;
    RETURN public.demo_concat_code(elements);
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_guid_code(p_relid oid, p_row text, p_old text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    c record;
    value text;
    parts text[] := '{}';
    changes text[] := '{}';
    guid text;
BEGIN
    FOR c IN SELECT * FROM public.demo_captured_columns(p_relid) WHERE keypos > 0 ORDER BY keypos LOOP
        value := public.demo_value_code(p_row || '.' || quote_ident(c.attname), c.form, false);
        parts := parts || format('pg_catalog.length(%s)', value) || quote_literal(':') || value;
        changes := changes || public.demo_changed_code(p_row, p_old, c.attname, c.form, c.plain, c.exact, false);
    END LOOP;
    guid := CASE cardinality(changes)
        WHEN 0 THEN quote_literal('')
        WHEN 1 THEN value
        ELSE public.demo_concat_code(parts)
    END;
    IF p_old IS NULL OR cardinality(changes) = 0 THEN
        RETURN guid;
    END IF;
    RETURN format('CASE WHEN %s THEN NULL ELSE %s END', array_to_string(changes, ' OR '), guid);
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_foreign_triggers(
    p_relid oid, OUT name text, OUT by_row boolean, OUT fires_after boolean, OUT may_write boolean
)
RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT g.tgname, g.tgtype & 1 = 1, g.tgtype & 66 = 0,
        NOT (l.lanname IN ('c', 'internal')
             OR (l.lanname = 'plpgsql' AND regexp_replace(p.prosrc, E'''[^'']*''|--[^\\n]*', '', 'g')
                 !~* E'\\m(insert|update|delete|merge|truncate|copy|select|perform|execute|call)\\M'))
    FROM pg_trigger g
    JOIN pg_proc p ON p.oid = g.tgfoid
    JOIN pg_language l ON l.oid = p.prolang
    WHERE g.tgrelid = p_relid AND NOT g.tgisinternal
      AND NOT (p.prosecdef AND p.proname ~ '^[a-z][a-z0-9_]*capture_[a-z0-9_]*_[0-9a-f]{8}_[iudtgbpx]$')
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_capture_mode(p_relid oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE
        WHEN c.relkind = 'p' OR c.relispartition
            OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = p_relid OR i.inhparent = p_relid)
            OR EXISTS (SELECT FROM public.demo_foreign_triggers(p_relid) g WHERE g.by_row AND g.may_write)
        THEN 'row' ELSE 'statement' END
    FROM pg_class c WHERE c.oid = p_relid
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_has_event_triggers() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT count(*) = 3 FROM pg_event_trigger e
    WHERE e.evtname IN (SELECT 'demo_' || w.name || left(md5($s$ public$s$::regnamespace::text), 8)
                        FROM (VALUES ('ddl_end_'), ('ddl_drop_'), ('ddl_rewrite_')) AS w (name))
      AND e.evtenabled IN ('O', 'A')
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_insertion_code(
    p_schema text, p_table text, p_relid oid, p_event text, p_new text, p_old text, p_protect text DEFAULT ''
) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format(
        E'INSERT INTO %s (dbid, tablename, guid, db_action, db_schema, content, oldcontent, version)\n    SELECT %s, %L, %s, %L',
        public.demo_own('items'), public.demo_dbid_code(), p_table,
        CASE p_event
            WHEN 'INSERT' THEN format('%s, %L, %L, %s, NULL', public.demo_guid_code(p_relid, p_new), p_event, p_schema,
                public.demo_content_code(p_relid, p_new, p_protect))
            WHEN 'UPDATE' THEN format('%s, %L, %L, %s, %s', public.demo_guid_code(p_relid, p_new, p_old), p_event,
                p_schema, public.demo_content_code(p_relid, p_new, p_protect),
                public.demo_oldcontent_code(p_relid, p_new, p_old))
            WHEN 'DELETE' THEN format('%s, %L, %L, NULL, %s', public.demo_guid_code(p_relid, p_old), p_event, p_schema,
                public.demo_content_code(p_relid, p_old, p_protect))
            ELSE format('NULL, %L, %L, NULL, NULL', p_event, p_schema)
        END, '1')
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_transition_code(p_event text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE p_event
        WHEN 'INSERT' THEN E'\n    FROM sluice_new n'
        WHEN 'DELETE' THEN E'\n    FROM sluice_old o'
        WHEN 'UPDATE' THEN
            E'\n    FROM (SELECT *, pg_catalog.row_number() OVER () AS sluice_row FROM sluice_old) o'
            '\n    FULL JOIN (SELECT *, pg_catalog.row_number() OVER () AS sluice_row FROM sluice_new) n'
            '\n    ON n.sluice_row OPERATOR(pg_catalog.=) o.sluice_row ORDER BY n.sluice_row'
        ELSE '' END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_next_rows(p_cursor refcursor, p_count integer) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN QUERY EXECUTE format('FETCH FORWARD %s FROM %I', p_count, p_cursor);
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_lockstep_code(p_relid oid, p_insertion text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    WITH listed AS (
        SELECT count(*) AS number,
            string_agg(quote_ident(c.attname), ', ' ORDER BY n) AS names,
            string_agg(format('c%s %s', n, c.atttype), ', ' ORDER BY n) AS types,
            string_agg('o' || n, ', ' ORDER BY n) AS old, string_agg('n' || n, ', ' ORDER BY n) AS new,
            string_agg(format('x.o%s AS %I', n, c.attname), ', ' ORDER BY n) AS old_as,
            string_agg(format('x.n%s AS %I', n, c.attname), ', ' ORDER BY n) AS new_as,
            bool_and(y.typnamespace = 'pg_catalog'::regnamespace) AS usual
        FROM public.demo_captured_columns(p_relid) WITH ORDINALITY AS
            c (attname, opening, atttype, nullable, keypos, plain, exact, direct, settings, n)
        JOIN pg_attribute a ON a.attrelid = p_relid AND a.attname = c.attname
        JOIN pg_type y ON y.oid = a.atttypid
    )
    SELECT CASE WHEN usual AND number BETWEEN 1 AND 800 THEN
        format(E'    OPEN old_rows NO SCROLL FOR SELECT %s FROM sluice_old;\n', names)
        || format(E'    OPEN new_rows NO SCROLL FOR SELECT %s FROM sluice_new;\n    LOOP\n    ', names)
        || p_insertion
        || E'\n    FROM ROWS FROM (\n'
        || format(E'        %s(old_rows, 10000) AS (%s),\n', public.demo_own('next_rows'), types)
        || format(E'        %s(new_rows, 10000) AS (%s)\n    ) AS x (%s, %s)\n', public.demo_own('next_rows'), types, old, new)
        || format(E'    CROSS JOIN LATERAL (SELECT %s) AS o\n    CROSS JOIN LATERAL (SELECT %s) AS n;\n', old_as, new_as)
        || E'    GET DIAGNOSTICS taken = ROW_COUNT;\n'
           '    EXIT WHEN taken OPERATOR(pg_catalog.<) 10000;\n    END LOOP;\n'
           '    CLOSE old_rows;\n    CLOSE new_rows;\n'
    ELSE
        '    ' || p_insertion || public.demo_transition_code('UPDATE') || E';\n'
    END
    FROM listed
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_key_index(p_relid oid) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid AND c.relkind = 'i'
    WHERE i.indrelid = p_relid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
      AND ARRAY(SELECT a.attname::text FROM unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY k (attnum, n)
                JOIN pg_attribute a ON a.attrelid = p_relid AND a.attnum = k.attnum ORDER BY k.n)
          = ARRAY(SELECT k.attname FROM public.demo_captured_columns(p_relid) k WHERE k.keypos > 0 ORDER BY k.keypos)
    ORDER BY i.indisprimary DESC, i.indexrelid
    LIMIT 1
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_signature_code(p_relid oid) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format($code$(SELECT coalesce(pg_catalog.sum(pg_catalog.hash_record_extended(
            ROW(a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attgenerated), 0)), 0)
        FROM pg_catalog.pg_attribute a
        WHERE a.attrelid OPERATOR(pg_catalog.=) %s::pg_catalog.oid
          AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped)$code$, p_relid)
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_guard_code(p_schema text, p_table text, p_relid oid, p_event text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    signature text;
    key_index oid := public.demo_key_index(p_relid);
BEGIN
    EXECUTE 'SELECT ' || public.demo_signature_code(p_relid) INTO signature;
    RETURN format(E'    IF %s OPERATOR(pg_catalog.<>) %s\n        OR TG_TABLE_NAME OPERATOR(pg_catalog.<>) %L'
            ' OR TG_TABLE_SCHEMA OPERATOR(pg_catalog.<>) %L%s THEN\n        EXECUTE %s(%s, %L);\n        RETURN NULL;\n    END IF;\n',
            public.demo_signature_code(p_relid), signature, p_table, p_schema,
            CASE WHEN key_index IS NULL THEN ''
                ELSE format(' OR pg_catalog.pg_relation_filenode(%s::pg_catalog.oid) IS NULL', key_index) END,
            public.demo_own('late_code'), p_relid, p_event)
        || format(E'    IF pg_catalog.has_column_privilege(%s::pg_catalog.oid, %s::pg_catalog.int2, %L) IS NOT NULL THEN\n'
            '        RAISE serialization_failure USING MESSAGE = %L, HINT = %L;\n    END IF;\n',
            p_relid, (SELECT c.relnatts + 1 FROM pg_class c WHERE c.oid = p_relid), 'SELECT',
            'The table was altered after this transaction took its snapshot', 'Try the transaction again.');
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_settle_code(p_schema text, p_table text, p_relid oid, p_event text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    WITH keys AS (
        SELECT string_agg(format('c.%1$I OPERATOR(pg_catalog.=) %2$s.%1$I', k.attname, CASE p_event WHEN 'DELETE' THEN 'OLD' ELSE 'NEW' END),
            ' AND ' ORDER BY k.keypos) AS same,
            (SELECT format(CASE c.relkind WHEN 'p' THEN '%I.%I' ELSE 'ONLY %I.%I' END, p_schema, p_table)
             FROM pg_class c WHERE c.oid = p_relid) AS here
        FROM public.demo_captured_columns(p_relid) k WHERE k.keypos > 0
    )
    SELECT coalesce(E'    IF pg_catalog.pg_trigger_depth() OPERATOR(pg_catalog.>) 1 THEN\n'
        '        PERFORM pg_catalog.set_config(''sluice.nested'', ''yes'', true);\n    END IF;\n'
        '    IF pg_catalog.current_setting(''sluice.nested'', true) OPERATOR(pg_catalog.=) ''yes'' THEN\n'
        || CASE WHEN p_event = 'DELETE' THEN
            format(E'    %s\n    FROM %s c WHERE %s;\n',
                public.demo_insertion_code(p_schema, p_table, p_relid, 'INSERT', 'c', NULL), here, same)
        ELSE
            format(E'    %s\n    FROM %s c WHERE %s AND %s OPERATOR(pg_catalog.<>) %s;\n',
                public.demo_insertion_code(p_schema, p_table, p_relid, 'UPDATE', 'c', 'NEW'), here, same,
                public.demo_content_code(p_relid, 'c', ''), public.demo_content_code(p_relid, 'NEW', ''))
            || format(E'    IF NOT EXISTS (SELECT FROM %s c WHERE %s) THEN\n    %s;\n    END IF;\n', here, same,
                public.demo_insertion_code(p_schema, p_table, p_relid, 'DELETE', NULL, 'NEW'))
        END || E'    END IF;\n', '')
    FROM keys
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_body_code(
    p_schema text, p_table text, p_relid oid, p_event text, p_by_row boolean, p_settle boolean, p_guard boolean,
    p_debug boolean, p_protect text
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    insertion text := public.demo_insertion_code(p_schema, p_table, p_relid, p_event,
        CASE WHEN p_by_row THEN 'NEW' ELSE 'n' END, CASE WHEN p_by_row THEN 'OLD' ELSE 'o' END, p_protect);
    declarations text := '';
    body text := '';
BEGIN
    IF NOT p_by_row THEN
        body := E'    IF ' || public.demo_replayed_code() || E' THEN\n        RETURN NULL;\n    END IF;\n';
        IF p_guard THEN
            body := body || public.demo_guard_code(p_schema, p_table, p_relid, p_event);
        END IF;
    END IF;
    IF p_by_row AND (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = p_relid) THEN
        body := public.demo_partition_guard_code(p_relid, p_event);
    END IF;
    IF p_by_row OR p_event = 'TRUNCATE' THEN
        body := body || '    ' || insertion || E';\n';
    ELSIF p_event = 'UPDATE' THEN
        declarations := E'DECLARE\n    old_rows refcursor;\n    new_rows refcursor;\n    taken bigint;\n';
        body := body || E'    IF EXISTS (SELECT FROM sluice_new OFFSET 1) THEN\n'
            || public.demo_lockstep_code(p_relid, insertion)
            || E'    ELSE\n    ' || insertion || E'\n    FROM sluice_old o CROSS JOIN sluice_new n;\n    END IF;\n';
    ELSE
        body := body || '    ' || insertion || public.demo_transition_code(p_event) || E';\n';
    END IF;
    IF p_by_row AND p_settle THEN
        body := body || public.demo_settle_code(p_schema, p_table, p_relid, p_event);
    END IF;
    IF p_event = 'TRUNCATE' AND (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = p_relid) THEN
        body := body || E'    PERFORM pg_catalog.set_config(''sluice.truncating'', '''', true);\n';
    END IF;
    IF p_debug THEN
        body := body || format(E'    PERFORM %s(pg_catalog.concat(%L, pg_catalog.pg_current_xact_id(), %L, session_user));\n',
            public.demo_own('debug'), format('%s %I.%I (%s trigger) in transaction ', p_event, p_schema, p_table,
                CASE WHEN p_by_row THEN 'row' ELSE 'statement' END), ' by ');
    END IF;
    RETURN format(E'\n#variable_conflict use_column\n%sBEGIN\n%s    RETURN NULL;\nEND\n', declarations, body);
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_settings_code(p_relid oid, p_event text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT coalesce(string_agg(format(' SET %I TO %s', u.s, CASE u.s
            WHEN 'DateStyle' THEN quote_literal('ISO, YMD') WHEN 'TimeZone' THEN quote_literal('UTC')
            WHEN 'IntervalStyle' THEN quote_literal('postgres') WHEN 'extra_float_digits' THEN '1'
            WHEN 'bytea_output' THEN quote_literal('hex') WHEN 'lc_monetary' THEN quote_literal('C')
            WHEN 'search_path' THEN 'pg_catalog, pg_temp' WHEN 'quote_all_identifiers' THEN 'off' END), '' ORDER BY u.s), '')
    FROM (SELECT unnest(x.settings) FROM public.demo_captured_columns(p_relid) x WHERE p_event <> 'TRUNCATE'
          UNION SELECT 'search_path' WHERE p_event = 'UPDATE') AS u (s)
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_capture_code(
    p_schema text, p_table text,
    OUT target oid, OUT mode text, OUT triggername text, OUT functionname text, OUT function_code text, OUT trigger_code text
)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t public.demo_tables;
    relid oid := public.demo_relation(p_schema, p_table);
    stem text;
    mark text;
    event text;
    by_row boolean;
    settle boolean;
    guard boolean := NOT public.demo_has_event_triggers();
    own text;
BEGIN
    SELECT * INTO t FROM public.demo_tables x WHERE x.schemaname = p_schema AND x.tablename = p_table;
    IF t.tablename IS NULL OR relid IS NULL OR t.actions = '' THEN
        RETURN;
    END IF;
    target := relid;
    mode := public.demo_capture_mode(relid);
    stem := coalesce(
        (SELECT nullif(x.stem, '') FROM public.demo_captures x WHERE x.schemaname = p_schema AND x.tablename = p_table),
        'capture_' || left(regexp_replace(lower(p_table), '[^a-z0-9]', '_', 'g'), 12)
            || '_' || left(md5('demo_' || format('%I.%I', p_schema, p_table)), 8));
    settle := EXISTS (SELECT FROM public.demo_foreign_triggers(relid) g WHERE g.by_row AND g.may_write);
    mark := CASE WHEN mode = 'row' OR EXISTS (
            SELECT FROM public.demo_foreign_triggers(relid) g
            WHERE g.fires_after AND g.name COLLATE "C" < t.trigger_name || '_u' COLLATE "C")
        THEN '!' ELSE '' END;

    FOREACH event IN ARRAY ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'] LOOP
        CONTINUE WHEN t.actions IS NOT NULL
            AND position(CASE event WHEN 'TRUNCATE' THEN 'D' ELSE left(event, 1) END IN t.actions) = 0;
        by_row := mode = 'row' AND event <> 'TRUNCATE';
        triggername := mark || t.trigger_name || '_' || lower(left(event, 1));
        functionname := stem || '_' || lower(left(event, 1));
        own := public.demo_own(functionname);
        function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER%s AS %L',
            own, public.demo_settings_code(relid, event),
            public.demo_body_code(p_schema, p_table, relid, event, by_row, settle, guard, t.debug = 1,
                public.demo_own(stem || '_x')));
        trigger_code := format('CREATE OR REPLACE TRIGGER %I AFTER %s ON %I.%I%s FOR EACH %s%s EXECUTE FUNCTION %s()',
            triggername, event, p_schema, p_table,
            CASE WHEN by_row OR event = 'TRUNCATE' THEN '' ELSE ' REFERENCING'
                || CASE WHEN event IN ('UPDATE', 'DELETE') THEN ' OLD TABLE AS sluice_old' ELSE '' END
                || CASE WHEN event IN ('UPDATE', 'INSERT') THEN ' NEW TABLE AS sluice_new' ELSE '' END END,
            CASE WHEN by_row THEN 'ROW' ELSE 'STATEMENT' END,
            CASE WHEN by_row THEN ' WHEN (NOT ' || public.demo_replayed_code() || ')' ELSE '' END, own)
            || public.demo_always_code(format('%I.%I', p_schema, p_table), triggername);
        RETURN NEXT;
    END LOOP;

    triggername := NULL;
    trigger_code := NULL;
    functionname := stem || '_x';
    function_code := format('CREATE OR REPLACE FUNCTION %s(r record) RETURNS text LANGUAGE plpgsql STABLE AS %L',
        public.demo_own(functionname),
        format(E'\nBEGIN\n    RETURN %s;\nEND\n', public.demo_content_code(relid, 'r', 'always')));
    RETURN NEXT;

    IF mode = 'row' AND guard THEN
        triggername := mark || t.trigger_name || '_g';
        functionname := stem || '_g';
        own := public.demo_own(functionname);
        function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS %L', own,
            format(E'\nBEGIN\n%s    RETURN NULL;\nEND\n', public.demo_guard_code(p_schema, p_table, relid, 'BEFORE')));
        trigger_code := format('CREATE OR REPLACE TRIGGER %I BEFORE INSERT OR UPDATE OR DELETE ON %I.%I FOR EACH STATEMENT'
            ' EXECUTE FUNCTION %s()', triggername, p_schema, p_table, own)
            || public.demo_always_code(format('%I.%I', p_schema, p_table), triggername);
        RETURN NEXT;
    END IF;
    RETURN QUERY SELECT p.target, mode, p.triggername, p.functionname, p.function_code, p.trigger_code
        FROM public.demo_partition_code(p_schema, p_table, relid, mark || t.trigger_name, stem) p
        WHERE t.actions IS NULL OR position('D' IN t.actions) > 0;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_leaves(p_relid oid) RETURNS oid[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT coalesce(array_agg(t.relid::oid ORDER BY t.relid), '{}') FROM pg_partition_tree(p_relid) t
    JOIN pg_class c ON c.oid = t.relid AND c.relkind = 'r'
    WHERE t.isleaf AND t.relid <> p_relid
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_is_inherited(p_relid oid, p_function text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT c.relkind = 'p' AND right(p_function, 2) IN ('_i', '_u', '_d') FROM pg_class c WHERE c.oid = p_relid
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_partition_guard_code(p_relid oid, p_event text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format(E'    IF TG_LEVEL OPERATOR(pg_catalog.<>) %L OR TG_WHEN OPERATOR(pg_catalog.<>) %L'
            ' OR TG_OP OPERATOR(pg_catalog.<>) %L THEN\n        RETURN NULL;\n    END IF;\n', 'ROW', 'AFTER', p_event)
        || format(E'    IF TG_RELID OPERATOR(pg_catalog.<>) ALL (%L::pg_catalog.oid[]) THEN\n'
            '        IF NOT EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(TG_RELID) a (relid)\n'
            '                       WHERE a.relid::pg_catalog.oid OPERATOR(pg_catalog.=) %s::pg_catalog.oid) THEN\n'
            '            RETURN NULL;\n        END IF;\n    END IF;\n', public.demo_leaves(p_relid), p_relid)
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_partition_code(
    p_schema text, p_table text, p_relid oid, p_trigger text, p_stem text,
    OUT target oid, OUT triggername text, OUT functionname text, OUT function_code text, OUT trigger_code text
)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    leaf oid;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = p_relid AND c.relkind = 'p') THEN
        RETURN;
    END IF;
    target := p_relid;
    triggername := p_trigger || '_b';
    functionname := p_stem || '_b';
    function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS %L',
        public.demo_own(functionname), format(E'\nBEGIN\n    PERFORM pg_catalog.set_config(''sluice.truncating'', %L, true);\n'
            '    RETURN NULL;\nEND\n', p_relid::text));
    trigger_code := format('CREATE OR REPLACE TRIGGER %I BEFORE TRUNCATE ON %I.%I FOR EACH STATEMENT EXECUTE FUNCTION %s()',
        triggername, p_schema, p_table, public.demo_own(functionname))
        || public.demo_always_code(format('%I.%I', p_schema, p_table), triggername);
    RETURN NEXT;

    triggername := p_trigger || '_p';
    functionname := p_stem || '_p';
    function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER'
        ' SET search_path TO pg_catalog, pg_temp AS %L', public.demo_own(functionname),
        format(E'\nBEGIN\n    IF %s OR current_setting(''sluice.truncating'', true) = %L\n'
            '        OR pg_partition_root(TG_RELID) IS DISTINCT FROM %s::oid::regclass THEN\n        RETURN NULL;\n    END IF;\n'
            '    PERFORM %s(%L, %L, ''DELETE'', TG_RELID);\n    RETURN NULL;\nEND\n',
            public.demo_replayed_code(), p_relid::text, p_relid, public.demo_own('recapture'), p_schema, p_table));
    target := NULL;
    trigger_code := NULL;
    RETURN NEXT;
    FOREACH leaf IN ARRAY public.demo_leaves(p_relid) LOOP
        CONTINUE WHEN NOT has_table_privilege(leaf, 'TRIGGER');
        target := leaf;
        trigger_code := format('CREATE OR REPLACE TRIGGER %I BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION %s()',
            triggername, leaf::regclass, public.demo_own(functionname))
            || public.demo_always_code(leaf::regclass::text, triggername);
        RETURN NEXT;
    END LOOP;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_follow_partitions(p_schema text, p_table text, p_relid oid, p_had oid[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    now oid[] := public.demo_leaves(p_relid);
    leaf oid;
BEGIN
    IF now = p_had THEN
        RETURN false;
    END IF;
    FOREACH leaf IN ARRAY p_had LOOP
        IF leaf <> ALL (now) AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = leaf) THEN
            RAISE EXCEPTION 'A partition of the replicated table %.% was dropped with its rows',
                quote_ident(p_schema), quote_ident(p_table)
                USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Use ALTER TABLE ... DETACH PARTITION first: then its rows are deleted on the slaves too.';
        ELSIF leaf <> ALL (now) AND pg_relation_size(leaf) > 0 THEN
            PERFORM public.demo_recapture(p_schema, p_table, 'DELETE', leaf);
        END IF;
    END LOOP;
    FOREACH leaf IN ARRAY now LOOP
        IF leaf <> ALL (p_had) AND pg_relation_size(leaf) > 0 THEN
            PERFORM public.demo_recapture(p_schema, p_table, 'INSERT', leaf);
        END IF;
    END LOOP;
    RETURN true;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_trigger_fault(p_relid oid, p_trigger text, p_function text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE
        WHEN g.oid IS NULL THEN format('trigger %I is missing', p_trigger)
        WHEN g.tgfoid IS DISTINCT FROM to_regprocedure(public.demo_own(p_function) || '()')::oid
            THEN format('trigger %I does not call function %s', p_trigger, public.demo_own(p_function))
        WHEN g.tgenabled NOT IN ('O', 'A') THEN format('trigger %I is disabled', p_trigger)
        WHEN g.tgenabled = 'O' AND public.demo_origins() <> ARRAY['']
            THEN format('trigger %I does not fire for what is passed on', p_trigger)
        WHEN public.demo_is_inherited(p_relid, p_function) AND NOT has_function_privilege('public', g.tgfoid, 'EXECUTE')
            THEN format('nobody may make partitions with trigger %I', p_trigger)
    END
    FROM (VALUES (true)) AS one (row)
    LEFT JOIN pg_trigger g ON g.tgrelid = p_relid AND g.tgname = p_trigger AND NOT g.tgisinternal
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_capture_faults(OUT schemaname text, OUT tablename text, OUT fault text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t record;
BEGIN
    FOR t IN
        SELECT x.*, public.demo_relation(x.schemaname, x.tablename) AS now_relid,
               h.relid, h.mode, h.stem, h.basis, h.triggers, h.leaves
        FROM public.demo_tables x
        LEFT JOIN public.demo_captures h ON h.schemaname = x.schemaname AND h.tablename = x.tablename
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
        FOR fault IN
            SELECT public.demo_trigger_fault(g.target, g.name, t.stem || right(g.name, 2))
            FROM (SELECT t.relid, name FROM unnest(t.triggers) AS n (name) WHERE right(name, 2) <> '_p'
                  UNION ALL SELECT leaf, name FROM unnest(t.triggers) AS n (name), unnest(t.leaves) AS l (leaf)
                  WHERE right(name, 2) = '_p' AND has_table_privilege(leaf, 'TRIGGER')) AS g (target, name)
        LOOP
            IF fault IS NOT NULL THEN
                RETURN NEXT;
            END IF;
        END LOOP;
        IF public.demo_basis(t.schemaname, t.tablename, t.relid) <> t.basis THEN
            fault := 'the triggers are out of date';
            RETURN NEXT;
        END IF;
    END LOOP;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_grant_execute(p_relid oid, p_function text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    inherited boolean := public.demo_is_inherited(p_relid, p_function);
    function regproc := to_regproc(public.demo_own(p_function));
BEGIN
    IF has_function_privilege('public', function, 'EXECUTE') <> inherited THEN
        EXECUTE format(CASE WHEN inherited THEN 'GRANT EXECUTE ON FUNCTION %s TO PUBLIC' ELSE 'REVOKE ALL ON FUNCTION %s FROM PUBLIC' END,
            function);
    END IF;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_make_trigger(p_code text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    PERFORM set_config('sluice.capturing', 'demo_', true);
    EXECUTE p_code;
    PERFORM set_config('sluice.capturing', '', true);
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_create_trigger(p_schema text, p_table text, p_light boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    c record;
    n integer;
    had public.demo_captures;
    now public.demo_captures;
    target_of oid[] := '{}';
    function_codes text[] := '{}';
    trigger_codes text[] := '{}';
    trigger_names text[] := '{}';
    function_names text[] := '{}';
    done text[] := '{}';
BEGIN
    SELECT * INTO had FROM public.demo_captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
    now := had;
    now.schemaname := p_schema;
    now.tablename := p_table;
    now.relid := public.demo_relation(p_schema, p_table);
    IF now.relid IS NULL THEN
        RAISE EXCEPTION 'Table %.% does not exist', quote_ident(p_schema), quote_ident(p_table) USING ERRCODE = 'undefined_table';
    END IF;
    now.mode := 'none';
    now.stem := coalesce(had.stem, '');
    FOR c IN SELECT * FROM public.demo_capture_code(p_schema, p_table) LOOP
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
    now.trigger_fingerprint := md5(replace(array_to_string(ARRAY(
        SELECT u.code FROM unnest(target_of, trigger_codes) WITH ORDINALITY AS u (target, code, place)
        WHERE u.target = now.relid ORDER BY u.place), ''), format('%I.%I', p_schema, p_table), ''));
    now.filenode := public.demo_filenode(now.relid);
    now.signature := public.demo_signature(now.relid);
    now.basis := public.demo_basis(p_schema, p_table, now.relid);
    now.leaves := public.demo_leaves(now.relid);
    now.rewritten := coalesce(had.rewritten, false);
    IF p_light THEN
        IF had.trigger_fingerprint IS DISTINCT FROM now.trigger_fingerprint OR had.triggers IS DISTINCT FROM now.triggers THEN
            RETURN NULL;
        END IF;
        now.leaves := had.leaves;
        now.signature := CASE WHEN public.demo_leaves(now.relid) = had.leaves THEN now.signature ELSE had.signature END;
    END IF;

    IF EXISTS (SELECT FROM public.demo_captures x WHERE x.stem = now.stem AND x.stem <> ''
               AND (x.schemaname, x.tablename) <> (p_schema, p_table)) THEN
        RAISE EXCEPTION 'The capture functions of %.% would have the names of another table''s', quote_ident(p_schema),
            quote_ident(p_table) USING ERRCODE = 'duplicate_function', HINT = 'Rename the table.';
    END IF;
    IF had.relid <> now.relid OR had.triggers <> now.triggers OR had.mode <> now.mode THEN
        PERFORM public.demo_drop_trigger(p_schema, p_table);
        done := done || 'the former triggers removed'::text;
    END IF;
    FOR n IN 1 .. cardinality(trigger_names) LOOP
        IF had.fingerprint IS DISTINCT FROM now.fingerprint
            OR to_regproc(public.demo_own(function_names[n])) IS NULL THEN
            EXECUTE function_codes[n];
        END IF;
        PERFORM public.demo_grant_execute(now.relid, function_names[n]);
        CONTINUE WHEN target_of[n] IS NULL OR trigger_names[n] IS NULL OR (p_light AND target_of[n] <> now.relid);
        IF (target_of[n] = now.relid AND had.trigger_fingerprint IS DISTINCT FROM now.trigger_fingerprint)
            OR public.demo_trigger_fault(target_of[n], trigger_names[n], function_names[n]) IS NOT NULL THEN
            IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = target_of[n] AND g.tgname = trigger_names[n]
                       AND g.tgfoid IS DISTINCT FROM to_regprocedure(public.demo_own(function_names[n]) || '()')) THEN
                RAISE EXCEPTION 'Table %.% already has a trigger % that is not of prefix demo_',
                    quote_ident(p_schema), quote_ident(p_table), quote_ident(trigger_names[n])
                    USING ERRCODE = 'duplicate_object', HINT = 'Configure another trigger name for this table.';
            END IF;
            PERFORM public.demo_make_trigger(trigger_codes[n]);
            done := done || format('trigger %I made', trigger_names[n]);
        END IF;
    END LOOP;
    IF had.fingerprint IS DISTINCT FROM now.fingerprint THEN
        done := done || 'functions written'::text;
    END IF;

    IF now IS DISTINCT FROM had OR done <> '{}' THEN
        DELETE FROM public.demo_captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
        INSERT INTO public.demo_captures SELECT now.*;
    END IF;
    PERFORM public.demo_remember(p_schema, p_table);
    IF had.tablename IS NULL AND now.triggers <> '{}' AND public.demo_no_rows(now.relid) THEN
        PERFORM public.demo_complete_item(p_schema, p_table);
    END IF;
    UPDATE public.demo_tables x SET status = 'OK'
        WHERE x.schemaname = p_schema AND x.tablename = p_table AND x.status <> 'OK';
    RETURN nullif(array_to_string(done, ', '), '');
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_no_rows(p_relid oid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    leaf oid;
    filled boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN false;
    END IF;
    FOREACH leaf IN ARRAY p_relid || public.demo_leaves(p_relid) LOOP
        IF pg_relation_size(leaf) > 16 * 1024 * 1024 OR row_security_active(leaf) OR NOT has_table_privilege(leaf, 'SELECT') THEN
            RETURN false;
        END IF;
        EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', leaf::regclass) INTO filled;
        IF filled THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_signature(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    signature text;
BEGIN
    EXECUTE 'SELECT ' || public.demo_signature_code(p_relid) INTO signature;
    RETURN concat_ws(' ', signature,
        (SELECT hash_record_extended(ROW(c.relname, c.relnamespace), 0) FROM pg_class c WHERE c.oid = p_relid),
        (SELECT sum(hash_record_extended(ROW(i.indexrelid, i.indisunique, i.indisprimary, i.indisvalid, i.indimmediate), 0))
         FROM pg_index i WHERE i.indrelid = p_relid),
        (SELECT sum(hash_record_extended(ROW(a.attnum, a.attidentity, a.attcollation), 0)) FROM pg_attribute a
         WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped),
        (SELECT sum(hash_record_extended(ROW(d.oid, d.adnum), 0)) FROM pg_attrdef d WHERE d.adrelid = p_relid),
        (SELECT sum(hash_record_extended(ROW(y.atttypid, t.plain, t.exact, t.form, t.settings), 0))
         FROM (SELECT DISTINCT a.atttypid FROM pg_attribute a JOIN pg_type p ON p.oid = a.atttypid
               WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped
                 AND p.typnamespace <> 'pg_catalog'::regnamespace) y
         CROSS JOIN LATERAL public.demo_type_traits(y.atttypid) t),
        (SELECT sum(hash_record_extended(ROW(g.name, g.by_row, g.fires_after, g.may_write), 0))
         FROM public.demo_foreign_triggers(p_relid) g),
        (SELECT sum(hash_record_extended(ROW(i.inhrelid, i.inhparent), 0)) FROM pg_inherits i
         WHERE i.inhrelid = p_relid OR i.inhparent = p_relid),
        public.demo_leaves(p_relid), public.demo_has_event_triggers());
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_basis(p_schema text, p_table text, p_relid oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT md5(concat_ws('/', coalesce(t.actions, 'IUD'), t.trigger_name, t.debug, current_database(),
        (SELECT i.value FROM public.demo_info i WHERE i.name = 'functions'), public.demo_origins(),
        public.demo_signature(p_relid)))
    FROM public.demo_tables t WHERE t.schemaname = p_schema AND t.tablename = p_table
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_filenode(p_relid oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN c.relkind = 'p'
        THEN (SELECT coalesce(md5(string_agg(pg_relation_filenode(t.relid)::text, ',' ORDER BY t.relid)), '')
              FROM pg_partition_tree(p_relid) t WHERE t.isleaf)
        ELSE coalesce(pg_relation_filenode(p_relid)::text, '') END
    FROM pg_class c WHERE c.oid = p_relid
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_drop_trigger(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT unnest(x.functions) FROM public.demo_captures x
                WHERE x.schemaname = p_schema AND x.tablename = p_table LOOP
        EXECUTE format('DROP FUNCTION IF EXISTS %s CASCADE', public.demo_own(name));
    END LOOP;
    DELETE FROM public.demo_captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_remember(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
BEGIN
    IF public.demo_describe(p_schema, p_table) IS NOT DISTINCT FROM public.demo_described(p_schema, p_table)
        AND NOT EXISTS (SELECT relid FROM public.demo_cols_table c WHERE c.schemaname = p_schema AND c.tablename = p_table
                        EXCEPT SELECT public.demo_relation(p_schema, p_table)) THEN
        RETURN;
    END IF;
    PERFORM public.demo_forget(p_schema, p_table);
    INSERT INTO public.demo_cols_table
        SELECT * FROM public.demo_cols_view v WHERE v.schemaname = p_schema AND v.tablename = p_table;
    INSERT INTO public.demo_current_tables (schemaname, relname)
        SELECT p_schema, p_table WHERE public.demo_relation(p_schema, p_table) IS NOT NULL;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_forget(p_schema text, p_table text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    DELETE FROM public.demo_cols_table c WHERE c.schemaname = p_schema AND c.tablename = p_table;
    DELETE FROM public.demo_current_tables c WHERE c.schemaname = p_schema AND c.relname = p_table;
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_ddl_item(
    p_action text, p_schema text, p_table text, p_content text, p_oldcontent text
) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    INSERT INTO public.demo_items (dbid, tablename, db_action, db_schema, content, oldcontent, version)
    SELECT coalesce(nullif(current_setting('sluice.origin', true), ''), current_database()), p_table, p_action, p_schema,
           p_content, p_oldcontent, '1'
    WHERE coalesce(current_setting('sluice.origin', true), '') = ANY (public.demo_origins())
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_complete_item(p_schema text, p_table text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT public.demo_ddl_item('CREATE', p_schema, p_table,
        regexp_replace(public.demo_describe(p_schema, p_table), '^<desc ', '<desc complete="true" '), NULL)
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_tables_trigger() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM public.demo_drop_trigger(OLD.schemaname, OLD.tablename);
        PERFORM public.demo_forget(OLD.schemaname, OLD.tablename);
    ELSIF public.demo_relation(NEW.schemaname, NEW.tablename) IS NOT NULL THEN
        PERFORM public.demo_ddl_item('CREATE', NEW.schemaname, NEW.tablename,
            public.demo_describe(NEW.schemaname, NEW.tablename), NULL);
    END IF;
    RETURN NULL;
END
$sluice$;

CREATE OR REPLACE TRIGGER demo_tables_created AFTER INSERT ON public.demo_tables
    FOR EACH ROW WHEN (NEW.status = 'CREATING') EXECUTE FUNCTION public.demo_tables_trigger();
CREATE OR REPLACE TRIGGER demo_tables_deleted AFTER DELETE ON public.demo_tables
    FOR EACH ROW EXECUTE FUNCTION public.demo_tables_trigger();

CREATE OR REPLACE FUNCTION public.demo_recapture(
    p_schema text, p_table text, p_action text, p_from oid DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off
AS $sluice$
DECLARE
    relid oid := public.demo_relation(p_schema, p_table);
    kind "char" := (SELECT c.relkind FROM pg_class c WHERE c.oid = relid);
    keyless boolean := NOT EXISTS (SELECT FROM public.demo_captured_columns(relid) WHERE keypos > 0);
    by_table boolean := p_from = ANY (public.demo_leaves(relid)) AND NOT has_table_privilege(p_from, 'SELECT');
    written bigint;
BEGIN
    IF coalesce(current_setting('sluice.origin', true), '') <> ALL (public.demo_origins()) THEN
        RETURN 0;  -- The change was replicated to here; its rows come by themselves.
    ELSIF p_action = 'UPDATE' AND keyless THEN
        PERFORM public.demo_ddl_item('TRUNCATE', p_schema, p_table, NULL, NULL);
        p_action := 'INSERT';
    END IF;
    EXECUTE format(
        'INSERT INTO %s (dbid, tablename, guid, db_action, db_schema, content, oldcontent, version)'
        ' SELECT %s, %L, %s, %L, %L, %s, %s, %L FROM %s %s n %s',
        public.demo_own('items'), public.demo_dbid_code(), p_table, public.demo_guid_code(relid, 'n'), p_action, p_schema,
        CASE WHEN p_action = 'DELETE' THEN 'NULL' ELSE public.demo_content_code(relid, 'n', '') END,
        CASE WHEN p_action = 'DELETE' THEN public.demo_content_code(relid, 'n', '') ELSE 'NULL' END,
        '1', CASE WHEN kind = 'p' THEN '' ELSE 'ONLY' END, coalesce(CASE WHEN NOT by_table THEN p_from END, relid)::regclass,
        CASE WHEN by_table THEN format('WHERE n.tableoid = %s AND %s', p_from, coalesce(pg_get_partition_constraintdef(p_from), 'true'))
            ELSE '' END);
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_values_changed(p_schema text, p_table text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT EXISTS (
        SELECT FROM public.demo_cols_view v
        LEFT JOIN public.demo_cols_table c
            ON c.schemaname = p_schema AND c.tablename = p_table AND c.attnum = v.attnum
        WHERE v.schemaname = p_schema AND v.tablename = p_table AND v.attgenerated = ''
          AND (c.atttype <> v.atttype OR c.attgenerated <> ''
               OR (c.attnum IS NULL AND v.attmissing IS NULL AND (v.attdefault IS NOT NULL OR v.attidentity <> ''
                   OR EXISTS (SELECT FROM pg_type y WHERE y.oid = v.atttypid AND y.typdefault IS NOT NULL)))))
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_check_table(
    p_schema text, p_table text, p_light boolean DEFAULT false, p_in_ddl boolean DEFAULT false
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    had public.demo_captures;
    relid oid := public.demo_relation(p_schema, p_table);
    new_schema text;
    new_table text;
    old_desc text;
    new_desc text;
    first_name public.demo_captures;
    altered boolean;
    moved boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(public.demo_own('captures'), 0))
    FROM public.demo_captures x
    WHERE x.schemaname = p_schema AND x.tablename = p_table AND x.mode <> 'dropped'
      AND x.relid IS DISTINCT FROM public.demo_relation(p_schema, p_table);
    SELECT * INTO had FROM public.demo_captures x WHERE x.schemaname = p_schema AND x.tablename = p_table FOR UPDATE;
    IF had.tablename IS NULL THEN
        RETURN NULL;  -- Being registered just now.
    END IF;
    old_desc := public.demo_described(p_schema, p_table);

    IF had.mode = 'dropped' OR NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = had.relid) THEN
        SELECT x.schemaname, x.tablename INTO new_schema, new_table FROM public.demo_captures x
        WHERE x.relid = public.demo_relation(p_schema, p_table) AND x.mode <> 'dropped'
          AND (x.schemaname, x.tablename) <> (p_schema, p_table);
        IF new_table IS NOT NULL THEN
            RETURN public.demo_check_table(new_schema, new_table, p_light, p_in_ddl);
        END IF;
    END IF;

    SELECT n.nspname, c.relname INTO new_schema, new_table
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = had.relid AND had.mode <> 'dropped';
    IF new_table IS NOT NULL AND had.relid IS DISTINCT FROM relid THEN
        PERFORM public.demo_rename(p_schema, p_table, new_schema, new_table, old_desc, p_light);
        RETURN format('renamed to %I.%I', new_schema, new_table);
    END IF;

    IF had.mode <> 'dropped' AND had.relid IS DISTINCT FROM relid THEN
        PERFORM public.demo_drop_trigger(p_schema, p_table);
        PERFORM public.demo_forget(p_schema, p_table);
        PERFORM public.demo_ddl_item('DROP', p_schema, p_table, NULL, old_desc);
        SELECT * INTO first_name FROM public.demo_captures h
        WHERE h.relid = had.relid AND h.mode = 'dropped' AND NOT EXISTS (
            SELECT FROM public.demo_tables x WHERE x.schemaname = h.schemaname AND x.tablename = h.tablename);
        IF first_name.tablename IS NOT NULL THEN
            UPDATE public.demo_tables x
                SET schemaname = first_name.schemaname, tablename = first_name.tablename, status = 'CREATING'
                WHERE x.schemaname = p_schema AND x.tablename = p_table;
            PERFORM public.demo_check_table(first_name.schemaname, first_name.tablename, p_light, p_in_ddl);
            RETURN 'dropped';
        END IF;
        UPDATE public.demo_tables x SET status = 'CREATING' WHERE x.schemaname = p_schema AND x.tablename = p_table;
        had.mode := 'dropped';
        had.triggers := '{}';
        had.functions := '{}';
        had.leaves := '{}';
        INSERT INTO public.demo_captures SELECT had.*;
        IF relid IS NULL THEN
            RETURN 'dropped';
        END IF;
    END IF;

    IF relid IS NULL OR (had.mode = 'dropped' AND p_light) THEN
        RETURN NULL;
    ELSIF had.mode = 'dropped' THEN
        IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relid AND c.relkind IN ('r', 'p')
                       AND c.relpersistence = 'p' AND NOT c.relispartition
                       AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'TRIGGER')) THEN
            RETURN NULL;
        END IF;
        IF NOT EXISTS (SELECT FROM public.demo_tables x WHERE x.schemaname = p_schema AND x.tablename = p_table) THEN
            INSERT INTO public.demo_tables (schemaname, tablename, actions, status, repl_key, trigger_name, debug)
            SELECT p_schema, p_table, t.actions, 'OK', k.key, 'demo_' || k.key, t.debug
            FROM public.demo_captures h
            JOIN public.demo_tables t ON t.schemaname = h.schemaname AND t.tablename = h.tablename
            CROSS JOIN (SELECT nextval(public.demo_own('seq')::regclass) AS key) k
            WHERE h.relid = had.relid
            LIMIT 1;
            IF NOT FOUND THEN
                DELETE FROM public.demo_captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
                RETURN NULL;
            END IF;
        END IF;
        UPDATE public.demo_captures x SET rewritten = false WHERE x.schemaname = p_schema AND x.tablename = p_table;
        PERFORM public.demo_complete_item(p_schema, p_table);
        PERFORM public.demo_create_trigger(p_schema, p_table);
        PERFORM public.demo_recapture(p_schema, p_table, 'INSERT');
        RETURN 'created';
    END IF;

    IF p_in_ddl THEN
        moved := public.demo_follow_partitions(p_schema, p_table, relid, had.leaves);
    ELSIF public.demo_leaves(relid) <> had.leaves THEN
        RAISE WARNING 'Partitions of the replicated table %.% came or went unnoticed; if they held rows, start an initial update',
            quote_ident(p_schema), quote_ident(p_table);
    END IF;
    IF p_in_ddl AND EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = ANY (relid || had.leaves)
                            AND g.tgname = ANY (had.triggers) AND g.tgenabled = 'D') THEN
        RAISE WARNING 'The triggers that capture %.% are disabled: no slave gets what changes until they are enabled again',
            quote_ident(p_schema), quote_ident(p_table)
            USING HINT = 'Afterwards let the DAG resync repair the table, or start an initial update of it.';
    END IF;
    new_desc := public.demo_describe(p_schema, p_table);
    altered := regexp_replace(new_desc, ' missing="[^"]*"', '', 'g') <> regexp_replace(old_desc, ' missing="[^"]*"', '', 'g');
    IF altered THEN
        PERFORM public.demo_ddl_item('ALTER', p_schema, p_table, new_desc, old_desc);
        had.rewritten := had.rewritten OR (public.demo_filenode(relid) <> had.filenode
            AND public.demo_values_changed(p_schema, p_table));
        UPDATE public.demo_captures x SET rewritten = had.rewritten
            WHERE x.schemaname = p_schema AND x.tablename = p_table AND x.rewritten <> had.rewritten;
    END IF;
    IF altered OR public.demo_signature(relid) <> had.signature THEN
        PERFORM public.demo_create_trigger(p_schema, p_table, p_light);
    END IF;
    IF had.rewritten AND NOT p_light THEN
        PERFORM public.demo_hold_off_writers(p_schema, p_table);
        PERFORM public.demo_recapture(p_schema, p_table, 'UPDATE');
        UPDATE public.demo_captures x SET rewritten = false WHERE x.schemaname = p_schema AND x.tablename = p_table;
        RETURN 'altered and rewritten';
    END IF;
    RETURN CASE WHEN altered THEN 'altered' WHEN moved THEN 'partitions changed' END;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_late_code(p_relid oid, p_event text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    had public.demo_captures;
    turn bigint := hashtextextended(public.demo_own('captures') || p_relid, 0);
BEGIN
    SELECT * INTO had FROM public.demo_captures x WHERE x.relid = p_relid AND x.mode <> 'dropped';
    IF had.tablename IS NULL THEN
        RETURN 'SELECT';
    END IF;
    IF p_event <> 'BEFORE' AND public.demo_relation(had.schemaname, had.tablename) = p_relid
        AND NOT pg_try_advisory_xact_lock(turn) THEN
        PERFORM public.demo_ddl_item('ALTER', had.schemaname, had.tablename,
            public.demo_describe(had.schemaname, had.tablename), public.demo_described(had.schemaname, had.tablename));
    ELSE
        PERFORM pg_advisory_xact_lock(turn);
        PERFORM public.demo_check_table(had.schemaname, had.tablename, p_light => true);
        SELECT * INTO had FROM public.demo_captures x WHERE x.relid = p_relid AND x.mode <> 'dropped';
    END IF;
    IF p_event = 'BEFORE' THEN
        RETURN 'SELECT';
    END IF;
    RETURN public.demo_insertion_code(had.schemaname, had.tablename, p_relid, p_event, 'n', 'o')
        || public.demo_transition_code(p_event);
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_hold_off_writers(p_schema text, p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    code text;
BEGIN
    FOR code IN SELECT c.trigger_code FROM public.demo_capture_code(p_schema, p_table) c WHERE c.trigger_code IS NOT NULL LIMIT 1 LOOP
        PERFORM public.demo_make_trigger(code);
    END LOOP;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_rename(
    p_schema text, p_table text, p_new_schema text, p_new_table text, p_old_desc text, p_light boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    this oid;
    other public.demo_captures;
    other_desc text;
    aside text;
    left_by oid;
BEGIN
    SELECT x.relid INTO this FROM public.demo_captures x WHERE x.schemaname = p_schema AND x.tablename = p_table;
    SELECT * INTO other FROM public.demo_captures x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table FOR UPDATE;
    IF NOT EXISTS (SELECT FROM public.demo_tables x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table) THEN
        left_by := other.relid;
        DELETE FROM public.demo_captures x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
    ELSE
        other_desc := public.demo_described(p_new_schema, p_new_table);
        IF other.mode <> 'dropped' AND EXISTS (SELECT FROM pg_class c WHERE c.oid = other.relid) THEN
            aside := 'sluice_renamed_' || other.relid;
            UPDATE public.demo_tables x SET tablename = aside WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
            UPDATE public.demo_captures x SET tablename = aside WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
            UPDATE public.demo_cols_table x SET tablename = aside WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
            UPDATE public.demo_current_tables x SET relname = aside WHERE x.schemaname = p_new_schema AND x.relname = p_new_table;
            PERFORM public.demo_ddl_item('ALTER', p_new_schema, p_new_table,
                public.demo_described(p_new_schema, aside), other_desc);
        ELSE
            IF other.mode <> 'dropped' THEN
                PERFORM public.demo_ddl_item('DROP', p_new_schema, p_new_table, NULL, other_desc);
            END IF;
            DELETE FROM public.demo_tables x WHERE x.schemaname = p_new_schema AND x.tablename = p_new_table;
        END IF;
    END IF;

    UPDATE public.demo_tables x SET schemaname = p_new_schema, tablename = p_new_table
        WHERE x.schemaname = p_schema AND x.tablename = p_table;
    UPDATE public.demo_captures x SET schemaname = p_new_schema, tablename = p_new_table
        WHERE x.schemaname = p_schema AND x.tablename = p_table;
    PERFORM public.demo_forget(p_schema, p_table);
    PERFORM public.demo_ddl_item('ALTER', p_schema, p_table,
        public.demo_describe(p_new_schema, p_new_table), p_old_desc);
    PERFORM public.demo_create_trigger(p_new_schema, p_new_table, p_light);

    IF p_table <> 'sluice_renamed_' || this AND this IS DISTINCT FROM left_by
        AND NOT EXISTS (SELECT FROM public.demo_captures x WHERE x.relid = this AND x.mode = 'dropped') THEN
        INSERT INTO public.demo_captures (schemaname, tablename, relid, mode, stem, triggers, functions, fingerprint,
            trigger_fingerprint, filenode, signature, basis, leaves, rewritten)
        VALUES (p_schema, p_table, coalesce(left_by, this), 'dropped',
            'capture_' || left(regexp_replace(lower(p_table), '[^a-z0-9]', '_', 'g'), 12) || '_'
                || left(md5(format('demo_%I.%I %s', p_schema, p_table, this)), 8), '{}', '{}', '', '', '', '', '', '{}', false);
    END IF;
    IF aside IS NOT NULL THEN
        PERFORM public.demo_check_table(p_new_schema, aside, p_light);
    END IF;
    IF public.demo_relation(p_schema, p_table) IS NOT NULL THEN
        PERFORM public.demo_check_table(p_schema, p_table, p_light);
    END IF;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_check_structure() RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s'
AS $sluice$
DECLARE
    t record;
    changed integer := 0;
BEGIN
    FOR t IN
        SELECT h.* FROM public.demo_captures h
        LEFT JOIN public.demo_tables x ON x.schemaname = h.schemaname AND x.tablename = h.tablename
        ORDER BY x.repl_key
    LOOP
        IF (CASE WHEN t.mode = 'dropped' THEN public.demo_relation(t.schemaname, t.tablename) IS NOT NULL
            ELSE t.rewritten OR t.relid IS DISTINCT FROM public.demo_relation(t.schemaname, t.tablename)
                OR public.demo_signature(t.relid) <> t.signature END) THEN
            BEGIN
                IF public.demo_check_table(t.schemaname, t.tablename) IS NOT NULL THEN
                    changed := changed + 1;
                END IF;
            EXCEPTION WHEN lock_not_available THEN
                RAISE WARNING '%.% is being written to, its change of structure waits', t.schemaname, t.tablename;
            END;
        END IF;
    END LOOP;
    RETURN changed;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_ddl_check(p_relids oid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t record;
BEGIN
    FOR t IN
        SELECT h.schemaname, h.tablename FROM public.demo_captures h
        WHERE p_relids IS NULL OR h.relid = ANY (p_relids) OR h.leaves && p_relids
           OR public.demo_relation(h.schemaname, h.tablename) = ANY (p_relids)
        ORDER BY (WITH RECURSIVE up (relid, height) AS (
            SELECT h.relid, 0 UNION SELECT i.inhparent, u.height + 1 FROM up u JOIN pg_inherits i ON i.inhrelid = u.relid)
            SELECT max(u.height) FROM up u)
    LOOP
        PERFORM public.demo_check_table(t.schemaname, t.tablename, p_in_ddl => true);
    END LOOP;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_ddl_end() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    relids oid[];
BEGIN
    IF current_setting('sluice.capturing', true) = 'demo_' THEN
        RETURN;  -- create_trigger makes a trigger.
    ELSIF TG_TAG = 'ALTER TYPE' THEN
        SELECT coalesce(array_agg(DISTINCT h.relid), '{}') INTO relids
        FROM public.demo_captures h
        JOIN pg_class c ON c.oid = h.relid
        JOIN pg_attribute a ON a.attrelid = h.relid AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_type y ON y.oid = a.atttypid
        WHERE c.reloftype <> 0 OR y.typnamespace <> 'pg_catalog'::regnamespace;
        PERFORM public.demo_ddl_check(relids);
        RETURN;
    END IF;
    WITH RECURSIVE named (relid, objid) AS (
        SELECT coalesce(i.indrelid, g.tgrelid, p.relid, c.objid), c.objid
        FROM pg_event_trigger_ddl_commands() c
        LEFT JOIN pg_index i ON c.classid = 'pg_class'::regclass AND i.indexrelid = c.objid
        LEFT JOIN pg_trigger g ON c.classid = 'pg_trigger'::regclass AND g.oid = c.objid
        LEFT JOIN LATERAL pg_partition_ancestors(CASE WHEN c.classid = 'pg_class'::regclass THEN c.objid END) p (relid) ON true
        WHERE c.classid IN ('pg_class'::regclass, 'pg_trigger'::regclass, 'pg_namespace'::regclass)
          AND c.schema_name IS DISTINCT FROM 'pg_temp'
    ), concerned (relid) AS (
        SELECT n.relid FROM named n
        UNION
        SELECT h.inhrelid FROM concerned d JOIN pg_inherits h ON h.inhparent = d.relid
    )
    SELECT array_agg(r.relid) INTO relids
    FROM (SELECT d.relid FROM concerned d UNION SELECT h.inhparent FROM named n JOIN pg_inherits h ON h.inhrelid = n.objid) r;
    PERFORM public.demo_ddl_check(CASE WHEN TG_TAG <> 'ALTER SCHEMA' THEN coalesce(relids, '{}') END);
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_ddl_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    gone record;
    relids oid[] := '{}';
    indexes boolean := false;
BEGIN
    FOR gone IN
        SELECT * FROM pg_event_trigger_dropped_objects() d
        WHERE d.classid IN ('pg_class'::regclass, 'pg_attrdef'::regclass) AND NOT d.is_temporary
    LOOP
        IF gone.object_type = 'index' THEN
            indexes := true;
        ELSIF gone.classid = 'pg_attrdef'::regclass THEN
            relids := relids || public.demo_relation(gone.address_names[1], gone.address_names[2]);
        ELSE
            relids := relids || gone.objid;
        END IF;
    END LOOP;
    IF indexes OR relids <> '{}' THEN
        PERFORM public.demo_ddl_check(CASE WHEN NOT indexes OR TG_TAG <> 'DROP INDEX' THEN relids END);
    END IF;
END
$sluice$;

CREATE OR REPLACE FUNCTION public.demo_ddl_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF pg_event_trigger_table_rewrite_reason() & 4 <> 0 THEN
        UPDATE public.demo_captures h SET rewritten = true
        WHERE h.mode <> 'dropped'
          AND (h.relid = pg_event_trigger_table_rewrite_oid() OR pg_event_trigger_table_rewrite_oid() = ANY (h.leaves));
    END IF;
END
$sluice$;

REVOKE ALL ON FUNCTION public.demo_ddl_end(), public.demo_ddl_drop(), public.demo_ddl_rewrite() FROM PUBLIC;

CREATE OR REPLACE FUNCTION public.demo_purge(
    p_seen pg_snapshot[], p_above bigint, p_through bigint, p_limit integer, OUT deleted bigint, OUT last_key bigint
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF coalesce(cardinality(p_seen), 0) = 0 THEN
        RAISE EXCEPTION 'No position given: without one nothing says which changes every slave has'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    WITH batch AS (
        SELECT i.repl_key FROM public.demo_items i
        WHERE i.repl_key > p_above AND i.repl_key <= p_through
          AND (SELECT bool_and(pg_visible_in_snapshot(i.trans_key, s)) FROM unnest(p_seen) s)
        ORDER BY i.repl_key LIMIT p_limit
    ), gone AS (
        DELETE FROM public.demo_items i USING batch b WHERE i.repl_key = b.repl_key RETURNING i.repl_key
    )
    SELECT count(*), max(g.repl_key) INTO deleted, last_key FROM gone g;
END
$sluice$;

REVOKE ALL ON FUNCTION public.demo_purge(pg_snapshot[], bigint, bigint, integer) FROM PUBLIC;
DO $sluice$
DECLARE
    found regclass;
    had text := current_setting('lock_timeout');
BEGIN
    FOR found IN
        SELECT c.oid FROM pg_catalog.pg_class c
        WHERE c.relnamespace = $name$ public$name$::regnamespace AND c.relreplident = 'd'
          AND c.relname IN ('demo_cols_table', 'demo_debug_table', 'demo_partitions')
    LOOP
        PERFORM set_config('lock_timeout', '2s', true);
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', found);
    END LOOP;
    PERFORM set_config('lock_timeout', had, true);
END
$sluice$;
DO $sluice$
DECLARE
    mark text := left(md5($s$ public$s$::regnamespace::text), 8);
    wanted record;
BEGIN
    FOR wanted IN
        SELECT 'demo_' || w.name || '_' || mark AS name, w.event, w.tags, public.demo_own(w.name) AS function
        FROM (VALUES
            ('ddl_end', 'ddl_command_end', ARRAY[
                'CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE', 'CREATE INDEX', 'ALTER INDEX',
                'CREATE TRIGGER', 'ALTER SCHEMA', 'ALTER TYPE']),
            ('ddl_drop', 'sql_drop', ARRAY[
                'DROP TABLE', 'DROP SCHEMA', 'DROP INDEX', 'DROP OWNED', 'DROP TYPE', 'DROP DOMAIN', 'DROP EXTENSION',
                'DROP FUNCTION', 'DROP ROUTINE', 'DROP AGGREGATE', 'DROP LANGUAGE', 'DROP OPERATOR', 'DROP OPERATOR CLASS',
                'DROP OPERATOR FAMILY', 'DROP COLLATION', 'DROP SEQUENCE', 'DROP ACCESS METHOD',
                'DROP TEXT SEARCH CONFIGURATION', 'DROP VIEW', 'DROP MATERIALIZED VIEW', 'DROP FOREIGN TABLE']),
            ('ddl_rewrite', 'table_rewrite', ARRAY['ALTER TABLE', 'ALTER TYPE'])
        ) AS w (name, event, tags)
    LOOP
        IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger e
                   WHERE e.evtname = wanted.name AND e.evtenabled <> 'D' AND e.evttags IS DISTINCT FROM wanted.tags) THEN
            EXECUTE format('DROP EVENT TRIGGER %I', wanted.name);
        END IF;
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger e WHERE e.evtname = wanted.name) THEN
            EXECUTE format('CREATE EVENT TRIGGER %I ON %s WHEN TAG IN (%s) EXECUTE FUNCTION %s()', wanted.name, wanted.event,
                (SELECT string_agg(quote_literal(t.tag), ', ' ORDER BY t.place)
                 FROM unnest(wanted.tags) WITH ORDINALITY AS t (tag, place)), wanted.function);
        END IF;
        IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger e WHERE e.evtname = wanted.name AND e.evtenabled = 'O') THEN
            EXECUTE format('ALTER EVENT TRIGGER %I ENABLE ALWAYS', wanted.name);
        END IF;
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'demo_: no event triggers, as % is no superuser; changes of structure are found by comparison', current_user;
END
$sluice$;
