-- In which block each key lies. Called by: the apply, on the MASTER, whose collations and types decide the order.
-- One sort of keys and bounds together, so any type and any collation orders as in the table's own index; a bound
-- equal to a key counts for it (peers of the window frame), because a block's start is inclusive.
-- Placeholders: ${columns} one unnest() a key column, named k1, k2, …; ${typed} each with its type and collation.
-- Parameters: one array literal a key column (named k1, k2, …), bounds first, then keys; count of bounds, and of both.
-- Result: one row a key, in the keys' order: how many bounds are at or below it.
-- Privileges: USAGE on the key columns' types. Oldest version: PostgreSQL 13.
WITH texts AS MATERIALIZED (
    -- In step with one another. In FROM, unnest() would take composites apart.
    SELECT ${columns}, generate_series(1, %(texts)s) AS n
), located AS (
    SELECT n, count(*) FILTER (WHERE n <= %(bounds)s) OVER (ORDER BY ${typed}) AS block FROM texts
)
SELECT block::int FROM located WHERE n > %(bounds)s ORDER BY n
