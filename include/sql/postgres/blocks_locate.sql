-- In which block each key lies. Called by: the apply, on the MASTER, whose collations and types decide the order.
-- One sort of keys and bounds together, so any type and any collation orders as in the table's own index; a bound
-- equal to a key counts for it (peers of the window frame), because a block's start is inclusive.
-- Placeholders: ${columns} k1, k2, …; ${typed} each of them cast to its column's type and collation.
-- Parameters: one text[] a key column (named k1, k2, …), bounds first, then keys; count of bounds.
-- Result: one row a key, in the keys' order: how many bounds are at or below it.
-- Privileges: USAGE on the key columns' types. Oldest version: PostgreSQL 13.
WITH texts AS MATERIALIZED (
    SELECT * FROM ROWS FROM (${arrays}) WITH ORDINALITY AS t (${columns}, n)
), located AS (
    SELECT n, count(*) FILTER (WHERE n <= %(bounds)s) OVER (ORDER BY ${typed}) AS block FROM texts
)
SELECT block::int FROM located WHERE n > %(bounds)s ORDER BY n
