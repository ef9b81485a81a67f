-- Merging net changes into a table. Each statement is a section with its name.
-- Oldest version: PostgreSQL 13.

-- name: merge_delete
-- Deletes the rows whose keys are in the source.
-- Called by: sluice.vendors.postgres.target.merge. Expects as many rows as the source has.
-- Placeholders: ${target} (with ONLY unless partitioned), ${source} relation or sub-select s, ${match} the keys'
--   equality, with the old image's where it is compared.
-- Privileges: SELECT, DELETE on the table.
DELETE FROM ${target} t USING ${source} s WHERE ${match}

-- name: merge_differing
-- Rows of the slave that differ from what the master had before the window.
-- Called by: sluice.vendors.postgres.target.conflicts.
-- Placeholders: ${shown} texts of the key; of each column that is compared ${now} the slave's text, ${before} the
--   master's, ${other} whether they differ; ${target}, ${source}, ${match} of the keys alone, ${same} equality of all.
-- Result: key texts, the slave's texts, the master's texts, where they differ. At most five rows.
-- Privileges: SELECT on the table.
SELECT ARRAY[${shown}]::text[], ARRAY[${now}]::text[], ARRAY[${before}]::text[], ARRAY[${other}]::boolean[]
FROM ${source} s JOIN ${target} t ON ${match}
WHERE NOT (${same})
ORDER BY 1
LIMIT 5

-- name: merge_found
-- Rows of the source with another number of matching rows on the slave than ${expected}.
-- Called by: sluice.vendors.postgres.target.conflicts, if a statement changed another number of rows than the source has.
-- Placeholders: ${shown} texts that identify the row, ${target}, ${source}, ${match}, ${expected} a number or s.copies.
-- Result: the texts, then the number found. At most five rows.
-- Privileges: SELECT on the table.
SELECT found.texts, found.number
FROM (
    SELECT ARRAY[${shown}]::text[] AS texts, max(${expected}) AS expected, count(t.tableoid) AS number
    FROM ${source} s LEFT JOIN ${target} t ON ${match}
    GROUP BY 1
) found
WHERE found.number < found.expected OR found.number > found.expected AND ${exact}
ORDER BY 1
LIMIT 5

-- name: merge_insert
-- Inserts the rows of the source. ${condition} excludes existing rows (safe mode), or is true. With a condition, ${order}
--   sorts by the key, so that all rows are tested before the first is inserted; otherwise the plan for a table that
--   counts as empty, a nested loop, would read what the statement itself inserts.
-- Called by: sluice.vendors.postgres.target.merge.
-- Placeholders: ${target} without ONLY, ${columns}, ${values} s.cN, …, ${source}, ${condition}, ${order}. OVERRIDING
--   SYSTEM VALUE: the master's value goes into an identity column, whatever its kind.
-- Privileges: INSERT on the table (and SELECT in safe mode).
INSERT INTO ${target} (${columns}) OVERRIDING SYSTEM VALUE SELECT ${values} FROM ${source} s WHERE ${condition} ${order}

-- name: merge_remove
-- Deletes copies of rows of a table without a key: for each distinct row of the source, as many as its COPIES says.
-- Called by: sluice.vendors.postgres.target.merge. Expects the sum of COPIES.
-- Placeholders: ${target}, ${source} as in merge_delete; ${match} equality of all columns, NULL equal to NULL.
-- Privileges: SELECT, DELETE on the table.
DELETE FROM ${target} t
USING (
    SELECT m.relation, m.place
    FROM (
        SELECT t.tableoid AS relation, t.ctid AS place, s.copies,
               row_number() OVER (PARTITION BY s.number ORDER BY t.tableoid, t.ctid) AS nth
        FROM (SELECT row_number() OVER () AS number, r.* FROM ${source} r) s
        JOIN ${target} t ON ${match}
    ) m
    WHERE m.nth <= m.copies
) gone
WHERE t.tableoid = gone.relation AND t.ctid = gone.place

-- name: merge_update
-- Updates rows to the values of the source, which for a moved row include its key.
-- Called by: sluice.vendors.postgres.target.merge. Expects as many rows as the source has.
-- Placeholders: ${target}, ${source}, ${match} as in merge_delete; ${assignments} column = s.cN, …
-- Privileges: SELECT, UPDATE on the table.
UPDATE ${target} t SET ${assignments} FROM ${source} s WHERE ${match}
