-- Runs of neighbouring rows along a table's key that match a condition: where it begins and ends to hold.
-- Called by: an initial update of a part of a table, on the master, in a read-only transaction.
-- Placeholders (keys, texts, source, within, where): the key's columns; their texts; the table; a range of its keys;
--   the condition, written by a person.
-- Result: the key's texts, whether the condition holds, and the row's number, for each row where that changes, in key
--   order.
-- Privileges: SELECT on the table.
-- Oldest version: PostgreSQL 13.
SELECT ${texts}, "sluice hit", "sluice number" FROM (
    SELECT ${keys}, "sluice hit", lag("sluice hit") OVER along AS "sluice before",
        row_number() OVER along AS "sluice number"
    FROM (
        SELECT ${keys}, coalesce((
${where}
        ), false) AS "sluice hit"
        FROM ${source} WHERE ${within}
    ) AS t
    WINDOW along AS (ORDER BY ${keys})
) AS t
WHERE "sluice hit" IS DISTINCT FROM "sluice before"
ORDER BY ${keys}
