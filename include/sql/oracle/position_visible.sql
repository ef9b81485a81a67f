-- The transactions with a change in ITEMS as of an SCN: those with a key in a range, and those of a list with any key.
-- Called by: sluice.vendors.oracle.source.server.Server.visible.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: scn; above (exclusive), up_to (inclusive); among, the list as a JSON array.
-- Result: IDs.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
SELECT i.TRANS_KEY FROM ${prefix}ITEMS AS OF SCN :scn i
WHERE i.REPL_KEY > :above AND i.REPL_KEY <= :up_to
UNION
SELECT i.TRANS_KEY FROM ${prefix}ITEMS AS OF SCN :scn i
JOIN JSON_TABLE(:among, '$[*]' COLUMNS (TRANS_KEY VARCHAR2(30) PATH '$')) a ON a.TRANS_KEY = i.TRANS_KEY
