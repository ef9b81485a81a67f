-- BLOCKS. Each statement is a section with its name.
-- Oldest version: Oracle 12.2.

-- name: blocks_caught_up
-- Marks a stored block as caught up: its rows are as of the checkpoint.
-- Called by: the apply, in the transaction of the changes that follow the block's marker.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, marker.
-- Result: none; no row changes if the block is another one by now.
-- Privileges: UPDATE on BLOCKS, EXECUTE on DBMS_LOB.
UPDATE ${schema}.${prefix}blocks SET marker = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'stored' AND DBMS_LOB.COMPARE(marker, TO_CLOB(%(marker)s)) = 0

-- name: blocks_claim
-- Selects the planned block to read next, and locks it until the caller commits.
-- Called by: a loader, on the slave.
-- Placeholders: ${prefix}, ${schema}, ${clock}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, marker, snapshot, tries; no row if other loaders have all of them. The caller
--   fetches one row only: SKIP LOCKED locks rows as they are fetched, and Oracle allows no limit with FOR UPDATE.
-- Privileges: SELECT, UPDATE on BLOCKS.
SELECT "schema", tablename, block, lo, hi, marker, snapshot, tries
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'planned' AND (retry_at IS NULL OR retry_at <= ${clock}) AND ${rest}
ORDER BY planned_at, "schema", tablename, block
FOR UPDATE SKIP LOCKED

-- name: blocks_import
-- Selects the exported block to import next, the first by file name, and locks it until the caller commits.
-- Called by: an importer, on the slave.
-- Placeholders: ${prefix}, ${schema}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, file; no row if other importers have all of them. The caller fetches one row
--   only, as of blocks_claim.
-- Privileges: SELECT, UPDATE on BLOCKS.
SELECT "schema", tablename, block, lo, hi, "file"
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'exported' AND ${rest}
ORDER BY "file"
FOR UPDATE SKIP LOCKED

-- name: blocks_in_snapshot
-- Whether the blocks are read in one snapshot that a load job holds.
-- Called by: the load job.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: 0 or 1.
-- Privileges: SELECT on BLOCKS.
SELECT COUNT(*) FROM DUAL
WHERE EXISTS (SELECT 1 FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND snapshot IS NOT NULL)

-- name: blocks_last
-- What the block of a table that was stored or exported last cost.
-- Called by: a loader that claims.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name.
-- Result: rows, bytes, begun_at, stored_at of its block stored or exported last; or no row.
-- Privileges: SELECT on BLOCKS.
SELECT "rows", bytes, begun_at, stored_at
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND state IN ('stored', 'exported')
ORDER BY stored_at DESC
FETCH FIRST 1 ROWS ONLY

-- name: blocks_made
-- The tables that the running initial update created on the slave.
-- Called by: its preparation.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: schema, tablename.
-- Privileges: SELECT on BLOCKS.
SELECT DISTINCT "schema", tablename FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND made = 1

-- name: blocks_mine
-- Whether a block is still begun by this loader.
-- Called by: a loader, while it copies.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, loader.
-- Result: 0 or 1.
-- Privileges: SELECT on BLOCKS.
SELECT COUNT(*) FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'begun' AND loader = %(loader)s

-- name: blocks_plan
-- Inserts the first block of a table, with all its keys.
-- Called by: the initial update, for each table that it creates, and for all tables in the transaction that sets
--   TRANSITION.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name; planned_at; made 0 or 1: the update has just created the table; marker,
--   snapshot: of the snapshot in which all blocks are read (both NULL: each block in its own). Loaders claim blocks by
--   PLANNED_AT, and the rest of a split block keeps it: this is the order of the tables.
-- Result: none; an existing first block is planned again, in the new order.
-- Privileges: INSERT, UPDATE on BLOCKS.
MERGE INTO ${schema}.${prefix}blocks b
USING (SELECT %(slave)s AS slave, %(table_schema)s AS of_schema, %(name)s AS tablename FROM DUAL) w
ON (b.slave = w.slave AND b."schema" = w.of_schema AND b.tablename = w.tablename AND b.block = 1)
WHEN MATCHED THEN UPDATE SET
    state = 'planned', lo = NULL, hi = NULL, planned_at = %(planned_at)s, begun_at = NULL, stored_at = NULL,
    marker = %(marker)s, snapshot = %(snapshot)s, "rows" = NULL, bytes = NULL, loader = NULL, "file" = NULL,
    sha256 = NULL, tries = 0, retry_at = NULL, made = GREATEST(made, %(made)s)
WHEN NOT MATCHED THEN INSERT
    (slave, "schema", tablename, block, state, planned_at, made, marker, snapshot)
    VALUES (w.slave, w.of_schema, w.tablename, 1, 'planned', %(planned_at)s, %(made)s, %(marker)s, %(snapshot)s)

-- name: blocks_release
-- Plans begun blocks again, or marks them as exported again if they were being imported, because their loader failed or
--   died.
-- Called by: a loader for its own blocks and those of its earlier starts; a job for those of earlier jobs.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; kin: the beginning of the loaders' names (empty: all).
-- Result: the number of changed rows is that of the begun blocks.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = CASE WHEN "file" IS NULL THEN 'planned' ELSE 'exported' END, loader = NULL, begun_at = NULL
WHERE slave = %(slave)s AND state = 'begun'
  AND (%(kin)s IS NULL OR SUBSTR(loader, 1, LENGTH(%(kin)s)) = %(kin)s)
