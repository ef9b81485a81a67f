-- Measures a window without reading its contents: one row a change, from the lowest key on.
-- Called by: sluice.vendors.oracle.source.reader.
-- Placeholders: as in queue_items.sql.
-- Binds: those of queue_window.sql and of ${selection}; most, the maximum number of rows.
-- Result: REPL_KEY, characters of its contents, 1 if it is an UPDATE that changes a key, else 0.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
SELECT s.REPL_KEY, s.LETTERS, s.KEY_CHANGE
FROM (
    SELECT i.REPL_KEY, NVL(LENGTH(i.CONTENT), 0) + NVL(LENGTH(i.OLDCONTENT), 0) AS LETTERS,
           CASE WHEN i.DB_ACTION = 'UPDATE' AND i.GUID IS NULL THEN 1 ELSE 0 END AS KEY_CHANGE
    FROM ${prefix}ITEMS i
    WHERE ${window} AND ${selection}
    ORDER BY i.REPL_KEY
) s
WHERE ROWNUM <= :most
