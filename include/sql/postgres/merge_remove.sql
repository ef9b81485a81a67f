-- Deletes copies of rows of a table without a key: for each distinct row of the source, as many as its COPIES says.
-- Called by: sluice.vendors.postgres.target.merge. Expects the sum of COPIES.
-- Placeholders: ${target}, ${source} as in merge_delete.sql; ${match} equality of all columns, NULL equal to NULL.
-- Privileges: SELECT, DELETE on the table.
-- Oldest version: PostgreSQL 13.
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
