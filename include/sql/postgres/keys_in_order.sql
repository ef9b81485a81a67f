-- Sorts keys as the table's index does. Runs on the MASTER.
-- Called by: an initial update of a part of a table.
-- Placeholders: ${columns} one unnest() a key column, named k1, k2, …; ${typed} each with its type and collation.
-- Parameters: one array literal a key column (named k1, k2, …); count of keys.
-- Result: the place of each key in the arrays, from 1.
-- Privileges: USAGE on the key columns' types.
WITH texts AS MATERIALIZED (SELECT ${columns}, generate_series(1, %(texts)s) AS n)
SELECT n FROM texts ORDER BY ${typed}
