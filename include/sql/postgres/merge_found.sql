-- Rows of the source with another number of matching rows on the slave than ${expected}.
-- Called by: sluice.vendors.postgres.target.conflicts, if a statement changed another number of rows than the source
--   has.
-- Placeholders: ${shown} texts that identify the row, ${target}, ${source}, ${match}, ${expected} a number or s.copies.
-- Result: the texts, then the number found. At most five rows.
-- Privileges: SELECT on the table.
-- Oldest version: PostgreSQL 13.
SELECT found.texts, found.number
FROM (
    SELECT ARRAY[${shown}]::text[] AS texts, max(${expected}) AS expected, count(t.tableoid) AS number
    FROM ${source} s LEFT JOIN ${target} t ON ${match}
    GROUP BY 1
) found
WHERE found.number < found.expected OR found.number > found.expected AND ${exact}
ORDER BY 1
LIMIT 5
