-- Functions on values: protection, XML content, numbers, debug lines, positions.
-- Called by: sluice.install after the numbered steps; the functions call one another and are called by the
--   generated capture functions. Bodies are in SQL-standard form or pin search_path, so that the
--   search_path of the writing session decides nothing.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none.
-- Privileges: CREATE on the schema. Oldest version: PostgreSQL 14.

-- How a value must be protected inside CONTENT: 0 not at all, 1 as CDATA, 2 as base64.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}needs_prot(value text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN value COLLATE "C" ~ '[\x01-\x1f\x7f-\x9f]|]]>' THEN 2
    WHEN value COLLATE "C" ~ '[<&]' THEN 1
    ELSE 0
END;

-- Text that stands in an XML attribute between double quotes, or between tags.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}xml_escape(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN replace(replace(replace(replace(value, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;');

-- One value as an element of CONTENT. NULL and the empty string are told apart by type="null".
CREATE OR REPLACE FUNCTION ${schema}.${prefix}col2xml(name text, value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN value IS NULL THEN
        '<col name="' || ${schema}.${prefix}xml_escape(name) || '" type="null"></col>'
    WHEN ${schema}.${prefix}needs_prot(value) = 0 THEN
        '<col name="' || ${schema}.${prefix}xml_escape(name) || '">' || value || '</col>'
    WHEN ${schema}.${prefix}needs_prot(value) = 1 THEN
        '<col name="' || ${schema}.${prefix}xml_escape(name) || '"><![CDATA[' || value || ']]></col>'
    ELSE
        '<col name="' || ${schema}.${prefix}xml_escape(name) || '" encoding="base64">'
        || translate(encode(convert_to(value, 'UTF8'), 'base64'), E'\n', '') || '</col>'
END;

-- Draws a number that no one else gets.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}increment() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT nextval($s$${schema}.${prefix}seq$s$::regclass);
END;

-- Writes one line to DEBUG_TABLE.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}debug(line text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO ${schema}.${prefix}debug_table (repl_key, line) VALUES (${schema}.${prefix}increment(), line);
END;

-- The position of the master now. LOW is read before the snapshot and HIGH after it: a transaction that
-- begins after the snapshot draws keys above LOW, and every change that the snapshot sees has a key up to HIGH.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}position(
    OUT low bigint, OUT snapshot pg_snapshot, OUT high bigint, OUT "time" timestamptz
)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    -- A sequence nobody has drawn from says 1, though 1 is still to come.
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END INTO low FROM ${schema}.${prefix}seq s;
    snapshot := pg_current_snapshot();
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END INTO high FROM ${schema}.${prefix}seq s;
    "time" := clock_timestamp();
END
$sluice$;
