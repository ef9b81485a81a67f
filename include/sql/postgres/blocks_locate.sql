-- Finds the block of each key. Runs on the MASTER, whose collations and types define the order. Bounds and keys are
-- sorted together, so any type and collation sorts as in the table's index; a bound that equals a key counts (as a peer
-- of the window frame), because the start of a block is inclusive.
-- Called by: the apply.
-- Placeholders: ${columns} one unnest() a key column, named k1, k2, …; ${typed} each with its type and collation.
-- Parameters: one array literal a key column (named k1, k2, …), bounds first, then keys; count of bounds, and of both.
-- Result: one row a key, in the keys' order: how many bounds are at or below it.
-- Privileges: USAGE on the key columns' types.
-- Oldest version: PostgreSQL 13.
WITH texts AS MATERIALIZED (
    -- In step with one another. In FROM, unnest() would take composites apart.
    SELECT ${columns}, generate_series(1, %(texts)s) AS n
), located AS (
    SELECT n, count(*) FILTER (WHERE n <= %(bounds)s) OVER (ORDER BY ${typed}) AS block FROM texts
)
SELECT block::int FROM located WHERE n > %(bounds)s ORDER BY n
