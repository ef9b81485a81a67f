-- The definition of a table as XML, the CONTENT and OLDCONTENT of CREATE, ALTER and DROP items:
--   <desc schema="public" table="orders"><colname pos="1" type="integer" nullable="false" key="1">id</colname>…</desc>
--   Attributes of a colname, the last six only where they say something: pos (attnum: stays when the column is
--   renamed), type, nullable, key (place in the key), default (expression), identity (a, d), generated (s, v),
--   collation (qualified), missing (the value of the rows that are older than the column).
--   <desc … complete="true">, in a CREATE item: all rows of the table follow in ITEMS, none came before its capture.
-- Called by: the triggers and functions of capture.sql, structure.sql and ddl.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none.
-- Privileges: CREATE on the schema. Oldest version: PostgreSQL 14.

-- The table of a name, in a schema too that this account may not use: an owner may move a table there. NULL: there is none.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}relation(p_schema text, p_table text) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = p_schema AND c.relname = p_table
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

-- The definition a table has now; NULL when there is no such table among the registered ones.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}describe(p_schema text, p_table text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
-- A default is shown as the session would write it.
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off
AS $sluice$
    SELECT '<desc schema="' || ${schema}.${prefix}xml_escape(p_schema) || '" table="' || ${schema}.${prefix}xml_escape(p_table) || '">'
        || coalesce(string_agg(${schema}.${prefix}desc_column(ROW(v.*)::${schema}.${prefix}cols_table), '' ORDER BY v.attnum), '') || '</desc>'
    FROM ${schema}.${prefix}cols_view v
    WHERE v.schemaname = p_schema AND v.tablename = p_table
    HAVING ${schema}.${prefix}relation(p_schema, p_table) IS NOT NULL
$sluice$;

-- The definition for which the capture of a table was written; NULL when it has none.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}described(p_schema text, p_table text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT '<desc schema="' || ${schema}.${prefix}xml_escape(p_schema) || '" table="' || ${schema}.${prefix}xml_escape(p_table) || '">'
        || coalesce(string_agg(${schema}.${prefix}desc_column(c), '' ORDER BY c.attnum), '') || '</desc>'
    FROM ${schema}.${prefix}cols_table c
    WHERE c.schemaname = p_schema AND c.tablename = p_table
    HAVING EXISTS (SELECT FROM ${schema}.${prefix}current_tables t WHERE t.schemaname = p_schema AND t.relname = p_table)
$sluice$;
