-- Rows of the slave that are not as the master had them before the window.
-- Called by: sluice.vendors.postgres.drift.
-- Placeholders: ${shown} texts of the key, ${now} texts of the slave's values, ${before} texts of the master's,
--   ${target}, ${source}, ${match} of the keys alone, ${same} equality of the images.
-- Result: key texts, the slave's texts, the master's texts. At most five rows.
-- Privileges: SELECT on the table. Oldest version: PostgreSQL 13.
SELECT ARRAY[${shown}]::text[], ARRAY[${now}]::text[], ARRAY[${before}]::text[]
FROM ${source} s JOIN ${target} t ON ${match}
WHERE NOT (${same})
ORDER BY 1
LIMIT 5
