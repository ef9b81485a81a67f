-- BLOCKS. Each statement is a section with its name.
-- Oldest version: PostgreSQL 13.

-- name: blocks_locate
-- Finds the block of each key. Runs on the MASTER, whose collations and types define the order. Bounds and keys are
--   sorted together, so any type and collation sorts as in the table's index; a bound that equals a key counts (as a peer
--   of the window frame), because the start of a block is inclusive.
-- Called by: the apply.
-- Placeholders: ${columns} one unnest() a key column, named k1, k2, …; ${typed} each with its type and collation.
-- Parameters: one array literal a key column (named k1, k2, …), bounds first, then keys; count of bounds, and of both.
-- Result: one row a key, in the keys' order: how many bounds are at or below it.
-- Privileges: USAGE on the key columns' types.
WITH texts AS MATERIALIZED (
    -- In step with one another. In FROM, unnest() would take composites apart.
    SELECT ${columns}, generate_series(1, %(texts)s) AS n
), located AS (
    SELECT n, count(*) FILTER (WHERE n <= %(bounds)s) OVER (ORDER BY ${typed}) AS block FROM texts
)
SELECT block::int FROM located WHERE n > %(bounds)s ORDER BY n

-- name: blocks_plan
-- Inserts the first block of a table, with all its keys.
-- Called by: the initial update, for each table that it creates, and for all tables in the transaction that sets
--   TRANSITION.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name; planned_at; made bool: the update has just created the table; marker, snapshot:
--   of the snapshot in which all blocks are read (both NULL: each block in its own). Loaders claim blocks by PLANNED_AT,
--   and the rest of a split block keeps it: this is the order of the tables.
-- Result: none; an existing first block is planned again, in the new order.
-- Privileges: INSERT, UPDATE on BLOCKS.
INSERT INTO ${schema}.${prefix}blocks AS blocks (slave, schema, tablename, block, state, planned_at, made, marker, snapshot)
VALUES (%(slave)s, %(table_schema)s, %(name)s, 1, 'planned', %(planned_at)s, %(made)s, %(marker)s, %(snapshot)s)
ON CONFLICT (slave, schema, tablename, block) DO UPDATE
SET state = 'planned', lo = NULL, hi = NULL, planned_at = excluded.planned_at, begun_at = NULL, stored_at = NULL,
    marker = excluded.marker, snapshot = excluded.snapshot, rows = NULL, bytes = NULL, loader = NULL, file = NULL,
    sha256 = NULL, tries = 0, retry_at = NULL, made = blocks.made OR excluded.made
