-- The definition of a table as XML, the CONTENT and OLDCONTENT of CREATE, ALTER and DROP items:
--   <desc schema="public" table="orders"><colname pos="1" type="integer" nullable="false" key="1">id</colname>…</desc>
--   Attributes of a colname, the last six only where they say something: pos (attnum: stays when the column is
--   renamed), type, nullable, key (place in the key), default (expression), identity (a, d), generated (s, v),
--   collation (qualified), missing (the value of the rows that are older than the column).
--   <desc … complete="true">, in a CREATE item: all rows of the table follow in ITEMS, none came before its capture.
--   After the columns the enums that they use, also within arrays, domains, composite types and ranges:
--   <enum schema="public" name="mood"><label id="16390">sad</label>…</enum>. An id stays when its label is renamed.
--   Then the domains, likewise: <domain schema="public" name="price" type="numeric(12,2)"/>, and the types and collations
--   that desc_types lists.
-- Called by: the triggers and functions of capture.sql, structure.sql and ddl.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none.
-- Privileges: CREATE on the schema. Oldest version: PostgreSQL 14.

-- The table of a name, also in a schema that this account may not use, to which an owner may have moved it. NULL without
-- one.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}relation(p_schema text, p_table text) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = p_schema AND c.relname = p_table);
END
$sluice$;

CREATE OR REPLACE FUNCTION ${schema}.${prefix}desc_column(c ${schema}.${prefix}cols_table) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '<colname pos="' || c.attnum || '" type="' || ${schema}.${prefix}xml_escape(c.atttype)
    || '" nullable="' || (NOT c.attnotnull)::text || '"'
    || CASE WHEN c.keypos > 0 THEN ' key="' || c.keypos || '"' ELSE '' END
    || coalesce(' default="' || ${schema}.${prefix}xml_escape(CASE WHEN c.attgenerated = '' THEN c.attdefault END) || '"', '')
    || CASE WHEN c.attidentity <> '' THEN ' identity="' || c.attidentity || '"' ELSE '' END
    || CASE WHEN c.attgenerated <> '' THEN ' generated="' || c.attgenerated || '" expression="'
        || ${schema}.${prefix}xml_escape(c.attdefault) || '"' ELSE '' END
    || coalesce(' collation="' || ${schema}.${prefix}xml_escape(c.attcollation) || '"', '')
    || coalesce(' missing="' || ${schema}.${prefix}xml_escape(c.attmissing) || '"', '')
    || '>' || ${schema}.${prefix}xml_escape(c.attname) || '</colname>';

-- Types with the types that they consist of: base types of domains, elements of arrays, bounds of ranges, attributes of
-- composites. It is inlined, so it has no settings. Callers disable hash and merge joins, since the planner expects
-- hundreds of rows from a recursion and would read all of pg_type, while each table needs few types.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}type_parts(p_types oid[], OUT oid oid, OUT depth integer) RETURNS SETOF record
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH RECURSIVE parts (oid, depth) AS (
        SELECT u.oid, 0 FROM unnest(p_types) AS u (oid)
        UNION
        SELECT x.oid, p.depth + 1
        FROM parts p
        JOIN pg_catalog.pg_type t ON t.oid = p.oid
        CROSS JOIN LATERAL (
            SELECT t.typbasetype WHERE t.typtype = 'd'
            UNION ALL SELECT t.typelem WHERE t.typtype = 'b' AND t.typcategory = 'A'
            UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid OR r.rngmultitypid = t.oid
            UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
                      WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        ) AS x (oid)
        WHERE p.depth < 20
    )
    SELECT p.oid, p.depth FROM parts p;
END;

-- The name of a collation, qualified and quoted.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}collation_name(p_collation oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT format('%I.%I', n.nspname, l.collname) FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace
        WHERE l.oid = p_collation);
END
$sluice$;

-- The enums that the columns of a table use, also as parts of other types.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}enum_types(p_relid oid) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off
AS $sluice$
BEGIN
    RETURN (SELECT coalesce(array_agg(DISTINCT t.oid ORDER BY t.oid), '{}')
    FROM ${schema}.${prefix}type_parts(ARRAY(
        SELECT a.atttypid FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped AND t.typnamespace <> 'pg_catalog'::regnamespace)) p
    JOIN pg_type t ON t.oid = p.oid WHERE t.typtype = 'e');
END
$sluice$;

-- These enums as in the definition; empty without any.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}desc_enums(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384) THEN
        RETURN '';
    END IF;
    RETURN (SELECT coalesce(string_agg('<enum schema="' || ${schema}.${prefix}xml_escape(n.nspname) || '" name="'
        || ${schema}.${prefix}xml_escape(t.typname) || '">' || coalesce((
            SELECT string_agg('<label id="' || e.oid || '">' || ${schema}.${prefix}xml_escape(e.enumlabel) || '</label>', ''
                              ORDER BY e.enumsortorder)
            FROM pg_enum e WHERE e.enumtypid = t.oid), '') || '</enum>', '' ORDER BY t.oid), '')
    FROM unnest(${schema}.${prefix}enum_types(p_relid)) AS u (oid)
    JOIN pg_type t ON t.oid = u.oid
    JOIN pg_namespace n ON n.oid = t.typnamespace);
END
$sluice$;

-- The domains that the columns of a table use, also as parts of other types, as in the definition; empty without any.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}desc_domains(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off
AS $sluice$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384) THEN
        RETURN '';
    END IF;
    RETURN (SELECT coalesce(string_agg('<domain schema="' || ${schema}.${prefix}xml_escape(n.nspname) || '" name="'
        || ${schema}.${prefix}xml_escape(t.typname) || '" type="'
        || ${schema}.${prefix}xml_escape(format_type(t.typbasetype, t.typtypmod)) || '"'
        || CASE WHEN t.typcollation <> b.typcollation THEN ' collation="' || ${schema}.${prefix}xml_escape(${schema}.${prefix}collation_name(t.typcollation)) || '"' ELSE '' END
        || '/>', '' ORDER BY t.oid), '')
    FROM (SELECT DISTINCT p.oid FROM ${schema}.${prefix}type_parts(ARRAY(
        SELECT a.atttypid FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped AND t.typnamespace <> 'pg_catalog'::regnamespace)) p
    ) u
    JOIN pg_type t ON t.oid = u.oid
    JOIN pg_type b ON b.oid = t.typbasetype
    JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE t.typtype = 'd');
END
$sluice$;

-- The composite types that the columns of a table use, also as parts of other types: the relations of their attributes, of
-- the kinds p_kinds. c: types that are not of an extension, part of the table's definition; r and p: row types of tables,
-- whose definitions follow with those.
DROP FUNCTION IF EXISTS ${schema}.${prefix}composite_types(oid);
CREATE OR REPLACE FUNCTION ${schema}.${prefix}composite_types(p_relid oid, p_kinds "char"[]) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off
AS $sluice$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384) THEN
        RETURN '{}';
    END IF;
    RETURN (SELECT coalesce(array_agg(DISTINCT c.oid ORDER BY c.oid), '{}')
    FROM ${schema}.${prefix}type_parts(ARRAY(SELECT a.atttypid FROM pg_attribute a
        WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384)) p
    JOIN pg_type t ON t.oid = p.oid AND t.typtype = 'c'
    JOIN pg_class c ON c.oid = t.typrelid AND c.relkind = ANY (p_kinds)
    WHERE NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_type'::regclass AND e.objid = t.oid AND e.deptype = 'e'));
END
$sluice$;

-- These types, the ranges, and the collations of all of them and of the columns, for slaves of the same vendor:
--   <composite schema="public" name="place" number="16400"><attribute pos="1" type="text" collation="…">street</attribute>…
--   A number stays when its type is renamed.
--   <range schema="public" name="span" subtype="time without time zone" opclass="pg_catalog.time_ops" multirange_schema="public"
--   multirange="spans" number="16410" collation="…" diff="…"/>: only those that consist of nothing but functions of PostgreSQL.
--   <collation schema="public" name="fold" provider="i" deterministic="false" locale="…" collate="…" ctype="…" rules="…"/>
--   Those of extensions are not among them. Empty without any.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}desc_types(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off
AS $sluice$
DECLARE
    parts oid[];
    composites oid[];
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped
                   AND (a.atttypid >= 16384 OR a.attcollation >= 16384)) THEN
        RETURN '';
    END IF;
    parts := ARRAY(SELECT DISTINCT p.oid FROM ${schema}.${prefix}type_parts(ARRAY(SELECT a.atttypid FROM pg_attribute a
        WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384)) p WHERE p.oid >= 16384);
    composites := ${schema}.${prefix}composite_types(p_relid, '{c}');
    RETURN (SELECT coalesce(string_agg(x.line, '' ORDER BY x.line), '') FROM (
        SELECT '<composite schema="' || ${schema}.${prefix}xml_escape(n.nspname) || '" name="' || ${schema}.${prefix}xml_escape(c.relname)
            || '" number="' || c.reltype::text || '">' || coalesce((SELECT string_agg('<attribute pos="' || a.attnum::text || '" type="'
                || ${schema}.${prefix}xml_escape(format_type(a.atttypid, a.atttypmod)) || '"'
                || CASE WHEN a.attcollation <> t.typcollation THEN ' collation="'
                    || ${schema}.${prefix}xml_escape(${schema}.${prefix}collation_name(a.attcollation)) || '"' ELSE '' END
                || '>' || ${schema}.${prefix}xml_escape(a.attname) || '</attribute>', '' ORDER BY a.attnum)
                FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '') || '</composite>' AS line
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = ANY (composites)
        UNION
        SELECT '<range schema="' || ${schema}.${prefix}xml_escape(n.nspname) || '" name="' || ${schema}.${prefix}xml_escape(t.typname)
            || '" subtype="' || ${schema}.${prefix}xml_escape(format_type(r.rngsubtype, NULL)) || '" opclass="pg_catalog.'
            || ${schema}.${prefix}xml_escape(quote_ident(o.opcname)) || '" multirange_schema="' || ${schema}.${prefix}xml_escape(mn.nspname)
            || '" multirange="' || ${schema}.${prefix}xml_escape(m.typname) || '" number="' || t.oid::text || '"'
            || CASE WHEN r.rngcollation <> s.typcollation THEN ' collation="'
                || ${schema}.${prefix}xml_escape(${schema}.${prefix}collation_name(r.rngcollation)) || '"' ELSE '' END
            || coalesce((SELECT ' diff="pg_catalog.' || ${schema}.${prefix}xml_escape(quote_ident(f.proname)) || '"' FROM pg_proc f
                WHERE f.oid = r.rngsubdiff AND f.pronamespace = 'pg_catalog'::regnamespace), '') || '/>'
        FROM pg_range r
        JOIN pg_type t ON t.oid = r.rngtypid
        JOIN pg_namespace n ON n.oid = t.typnamespace
        JOIN pg_type m ON m.oid = r.rngmultitypid
        JOIN pg_namespace mn ON mn.oid = m.typnamespace
        JOIN pg_type s ON s.oid = r.rngsubtype
        JOIN pg_opclass o ON o.oid = r.rngsubopc AND o.opcnamespace = 'pg_catalog'::regnamespace
        WHERE (r.rngtypid = ANY (parts) OR r.rngmultitypid = ANY (parts)) AND r.rngcanonical = 0
          AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_type'::regclass AND e.objid = t.oid AND e.deptype = 'e')
        UNION
        SELECT '<collation schema="' || ${schema}.${prefix}xml_escape(n.nspname) || '" name="' || ${schema}.${prefix}xml_escape(l.collname)
            || '" provider="' || l.collprovider::text || '" deterministic="' || l.collisdeterministic::text || '"'
            || coalesce((SELECT string_agg(' ' || v.name || '="' || ${schema}.${prefix}xml_escape(v.value) || '"', '' ORDER BY v.name)
                FROM (VALUES ('locale', coalesce(to_jsonb(l) ->> 'colllocale', to_jsonb(l) ->> 'colliculocale',
                              CASE WHEN l.collprovider = 'i' THEN to_jsonb(l) ->> 'collcollate' END)),
                    ('collate', to_jsonb(l) ->> 'collcollate'), ('ctype', to_jsonb(l) ->> 'collctype'),
                    ('rules', to_jsonb(l) ->> 'collicurules')) v (name, value) WHERE v.value IS NOT NULL), '') || '/>'
        FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace
        WHERE l.oid >= 16384 AND l.oid IN (
            SELECT a.attcollation FROM pg_attribute a WHERE (a.attrelid = p_relid OR a.attrelid = ANY (composites)) AND a.attnum > 0 AND NOT a.attisdropped
            UNION SELECT t.typcollation FROM pg_type t WHERE t.oid = ANY (parts)
            UNION SELECT r.rngcollation FROM pg_range r WHERE r.rngtypid = ANY (parts) OR r.rngmultitypid = ANY (parts))
    ) x);
END
$sluice$;

-- The present definition of a table, under its present name.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}describe_relation(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off
AS $sluice$
BEGIN
    RETURN (SELECT '<desc schema="' || ${schema}.${prefix}xml_escape(n.nspname) || '" table="' || ${schema}.${prefix}xml_escape(c.relname) || '">'
            || coalesce((SELECT string_agg(${schema}.${prefix}desc_column(ROW(v.*)::${schema}.${prefix}cols_table), '' ORDER BY v.attnum)
                         FROM ${schema}.${prefix}cols_all v WHERE v.relid = p_relid), '')
            || ${schema}.${prefix}desc_enums(p_relid) || ${schema}.${prefix}desc_domains(p_relid)
            || ${schema}.${prefix}desc_types(p_relid) || '</desc>'
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_relid);
END
$sluice$;

-- The present definition of a table; NULL if there is no such registered table.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}describe(p_schema text, p_table text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN ${schema}.${prefix}describe_relation(${schema}.${prefix}relation(p_schema, p_table))
    FROM ${schema}.${prefix}tables t WHERE t.schemaname = p_schema AND t.tablename = p_table;
END
$sluice$;

-- The definition for which the capture of a table was generated; NULL without one.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}described(p_schema text, p_table text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT '<desc schema="' || ${schema}.${prefix}xml_escape(p_schema) || '" table="' || ${schema}.${prefix}xml_escape(p_table) || '">'
            || coalesce((SELECT string_agg(${schema}.${prefix}desc_column(c), '' ORDER BY c.attnum)
                         FROM ${schema}.${prefix}cols_table c WHERE c.schemaname = p_schema AND c.tablename = p_table), '')
            || t.enums || '</desc>'
        FROM ${schema}.${prefix}current_tables t WHERE t.schemaname = p_schema AND t.relname = p_table);
END
$sluice$;
