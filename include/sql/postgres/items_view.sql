-- ITEMS with the columns and types that xmlBlaster documents, for readers that were written for them.
-- Called by: hand, for such a reader; Sluice itself does not use it, and removes it with the prefix.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: the view <prefix>ITEMS_VIEW. REPL_KEY is numeric, TRANS_KEY a text, and OLDCONTENT of an UPDATE the whole row
--   before it, not only its key and what differs.
-- Privileges: those of the account that installed the prefix; grant SELECT on the view, and nothing else, to the reader.
-- Oldest version: PostgreSQL 14.

-- The elements of a row's text, one for each column: a value has no `<` unless it is CDATA, which ends at its first `]]>`.
CREATE OR REPLACE VIEW ${schema}.${prefix}items_view AS
SELECT i.repl_key::numeric AS repl_key, i.trans_key::text::varchar AS trans_key, i.dbid::varchar AS dbid,
    i.tablename::varchar AS tablename, i.guid::varchar AS guid, i.db_action::varchar AS db_action,
    i.db_catalog::varchar AS db_catalog, i.db_schema::varchar AS db_schema, i.content,
    CASE WHEN i.db_action = 'UPDATE' AND i.content IS NOT NULL AND i.oldcontent IS NOT NULL
    THEN (
        WITH after AS (
            SELECT found[1] AS col, found[2] AS name, place
            FROM pg_catalog.regexp_matches(i.content,
                '(<col name="([^"]*)"[^>]*>(?:<!\[CDATA\[(?:[^]]|\](?!\]>))*\]\]>|[^<]*)</col>)', 'g')
                WITH ORDINALITY AS each (found, place)
        ), before AS (
            SELECT found[1] AS col, found[2] AS name
            FROM pg_catalog.regexp_matches(i.oldcontent,
                '(<col name="([^"]*)"[^>]*>(?:<!\[CDATA\[(?:[^]]|\](?!\]>))*\]\]>|[^<]*)</col>)', 'g') AS each (found)
        )
        SELECT pg_catalog.string_agg(coalesce(b.col, a.col), '' ORDER BY a.place)
        FROM after a LEFT JOIN before b ON b.name = a.name
    )
    ELSE i.oldcontent END AS oldcontent, i.version::varchar AS version
FROM ${schema}.${prefix}items i;

REVOKE ALL ON ${schema}.${prefix}items_view FROM PUBLIC;
