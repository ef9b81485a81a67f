-- The transactions that have a change in ITEMS as of an SCN: one between two keys, or any if named in a JSON array.
-- Called by: sluice.vendors.oracle.source.server.Server.visible.
-- Binds: :scn, :above (exclusive), :up_to (inclusive), :among. Result: IDs.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Privileges: owner of the tables. Oldest version: Oracle 12.2.
SELECT i.TRANS_KEY FROM ${prefix}ITEMS AS OF SCN :scn i
WHERE i.REPL_KEY > :above AND i.REPL_KEY <= :up_to
UNION
SELECT i.TRANS_KEY FROM ${prefix}ITEMS AS OF SCN :scn i
JOIN JSON_TABLE(:among, '$[*]' COLUMNS (TRANS_KEY VARCHAR2(30) PATH '$')) a ON a.TRANS_KEY = i.TRANS_KEY
