-- Deletes, or only finds, the rows of the slave that have a unique value which the new row needs (safe mode).
-- Called by: sluice.vendors.postgres.target.change_statements. The replay inserts a deleted row again.
-- Placeholders: ${begin} DELETE FROM the table t USING, or SELECT its key FROM the table t, with a comma; ${end} in the
--   first case RETURNING its key; ${target} the table (with ONLY unless partitioned), ${alias} its unqualified name,
--   quoted; ${row} the new row as $1::type AS "column", …; ${expressions} of the index, named e1, …; ${predicate} of
--   the index or true; ${key} the row's own key, named k1, …; ${equal} o.eN = n.eN; ${own} o is the row itself.
-- Result: a row each with the key, an array of texts.
-- Privileges: SELECT, DELETE on the table.
-- Oldest version: PostgreSQL 13.
${begin} (
    SELECT o.relation, o.place
    FROM (SELECT tableoid AS relation, ctid AS place, ${key}, ${expressions} FROM ${target} WHERE ${predicate}) o
    JOIN (SELECT ${expressions} FROM (SELECT ${row}) AS ${alias} WHERE ${predicate}) n ON ${equal}
    WHERE NOT (${own})
) holder
WHERE t.tableoid = holder.relation AND t.ctid = holder.place
${end}
