-- Functions for values: escaping, XML content, numbers, debug lines, positions.
-- Called by: sluice.capture after the numbered steps; the functions call one another and are called by the generated
--   capture functions. Bodies are in SQL-standard form or pin search_path, so that the search_path of the writing
--   session decides nothing.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.

-- The qualified, quoted name of an object of this prefix, for generated code.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}own(name text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN $s$ ${schema}$s$::regnamespace::text || '.' || quote_ident('${prefix}' || name);

-- A name of the application for code in PL/pgSQL, always in quotes: quote_ident() leaves out those of PL/pgSQL's own words.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}quoted(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '"' || replace(name, '"', '""') || '"';

-- How a value must be protected in CONTENT: 0 not at all, 1 as CDATA, 2 as base64.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}needs_prot(value text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN value COLLATE "C" ~ '[\x01-\x1f\x7f-\x9f]|]]>' THEN 2
    WHEN value COLLATE "C" ~ '[<&]' THEN 1
    ELSE 0
END;

-- Escapes text for an XML attribute in double quotes, or between tags.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}xml_escape(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN replace(replace(replace(replace(value, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;');

-- One value as an element of CONTENT. type="null" distinguishes NULL from the empty string. It is in plpgsql so that it
-- is called, not inlined: capture functions refer to it once for each text column, and preparing an inlined body for
-- every statement would cost more than calls for the few values that need it.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}col2xml(name text, value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $sluice$
BEGIN
    IF value IS NULL THEN
        RETURN pg_catalog.concat('<col name="', ${schema}.${prefix}xml_escape(name), '" type="null"></col>');
    END IF;
    CASE ${schema}.${prefix}needs_prot(value)
        WHEN 0 THEN
            RETURN pg_catalog.concat('<col name="', ${schema}.${prefix}xml_escape(name), '">', value, '</col>');
        WHEN 1 THEN
            RETURN pg_catalog.concat('<col name="', ${schema}.${prefix}xml_escape(name), '"><![CDATA[', value, ']]></col>');
        ELSE
            RETURN pg_catalog.concat('<col name="', ${schema}.${prefix}xml_escape(name), '" encoding="base64">',
                pg_catalog.translate(pg_catalog.encode(
                    -- Its bytes as they are: convert_to() fails for a text that is not valid, and no statement may fail for that.
                    CASE WHEN pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.=) 'UTF8'
                        THEN pg_catalog.decode(pg_catalog.replace(value, E'\\', E'\\\\'), 'escape')
                        ELSE pg_catalog.convert_to(value, 'UTF8') END, 'base64'), E'\n', ''), '</col>');
    END CASE;
END
$sluice$;

-- Draws a unique number, like a key of ITEMS.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}increment() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
RETURN ${schema}.${prefix}next_key();

-- Writes one line to DEBUG_TABLE.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}debug(line text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO ${schema}.${prefix}debug_table (repl_key, line) VALUES (${schema}.${prefix}increment(), line);
END;

-- The present position of the master, for a session without a transaction ID of its own. LOW, and after it the next
-- transaction ID, are read before the snapshot, HIGH after it: a transaction with an ID from NEXT_XID on began after LOW
-- was read and draws keys above it, and every change that the snapshot sees has a key up to HIGH. The end of a snapshot
-- is no such ID: it is the ID after the last *completed* transaction, and transactions beyond it may have drawn keys long
-- ago. NEXT_XID is NULL if it cannot be known.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}position(
    OUT low bigint, OUT next_xid bigint, OUT snapshot pg_snapshot, OUT high bigint, OUT "time" timestamptz
)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    "time" := clock_timestamp();
    low := ${schema}.${prefix}last_key();
    IF pg_current_xact_id_if_assigned() IS NULL THEN
        -- age() counts from the next ID, in 32 bits; 3 is the first ordinary one.
        next_xid := (age('3'::xid)::bigint + 3) & 4294967295;
    END IF;
    snapshot := pg_current_snapshot();
    IF next_xid IS NOT NULL THEN
        -- Into 64 bits: of all numbers with these low bits the one nearest to the snapshot's end.
        next_xid := pg_snapshot_xmax(snapshot)::text::bigint
            + ((next_xid - pg_snapshot_xmax(snapshot)::text::bigint + 2147483648) & 4294967295) - 2147483648;
    END IF;
    high := ${schema}.${prefix}last_key();
END
$sluice$;
