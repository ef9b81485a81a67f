-- How many rows of the slave each row of the source matches, where that is not ${expected}.
-- Called by: sluice.vendors.postgres.target.conflicts, when a statement touched another number of rows than the source has.
-- Placeholders: ${shown} texts that tell the row, ${target}, ${source}, ${match}, ${expected} a number or s.copies.
-- Result: the texts, then the number found. At most five rows.
-- Privileges: SELECT on the table. Oldest version: PostgreSQL 13.
SELECT found.texts, found.number
FROM (
    SELECT ARRAY[${shown}]::text[] AS texts, max(${expected}) AS expected, count(t.tableoid) AS number
    FROM ${source} s LEFT JOIN ${target} t ON ${match}
    GROUP BY 1
) found
WHERE found.number < found.expected OR found.number > found.expected AND ${exact}
ORDER BY 1
LIMIT 5
