-- Rows of the slave that differ from what the master had before the window.
-- Called by: sluice.vendors.postgres.target.conflicts.
-- Placeholders: ${shown} texts of the key; of each column that is compared ${now} the slave's text, ${before} the
--   master's, ${other} whether they differ; ${target}, ${source}, ${match} of the keys alone, ${same} equality of all.
-- Result: key texts, the slave's texts, the master's texts, where they differ. At most five rows.
-- Privileges: SELECT on the table.
-- Oldest version: PostgreSQL 13.
SELECT ARRAY[${shown}]::text[], ARRAY[${now}]::text[], ARRAY[${before}]::text[], ARRAY[${other}]::boolean[]
FROM ${source} s JOIN ${target} t ON ${match}
WHERE NOT (${same})
ORDER BY 1
LIMIT 5
