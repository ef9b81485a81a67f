-- Removes the rows of the slave that hold a unique value which the new row needs (safe mode).
-- Called by: sluice.vendors.postgres.replay. A newer change of a removed row follows and brings it back.
-- Placeholders: ${target} the table (with ONLY unless partitioned), ${alias} its unqualified name, quoted;
--   ${row} the new row as $1::type AS "column", …; ${expressions} of the index, named e1, …; ${predicate} of the
--   index or true; ${key} the row's own key, named k1, …; ${equal} o.eN = n.eN; ${own} o is the row itself.
-- Privileges: SELECT, DELETE on the table. Oldest version: PostgreSQL 13.
DELETE FROM ${target} t
USING (
    SELECT o.relation, o.place
    FROM (SELECT tableoid AS relation, ctid AS place, ${key}, ${expressions} FROM ${target} WHERE ${predicate}) o
    JOIN (SELECT ${expressions} FROM (SELECT ${row}) AS ${alias} WHERE ${predicate}) n ON ${equal}
    WHERE NOT (${own})
) displaced
WHERE t.tableoid = displaced.relation AND t.ctid = displaced.place
