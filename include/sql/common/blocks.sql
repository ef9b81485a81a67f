-- BLOCKS. Each statement is a section with its name.

-- name: blocks_adopt
-- Inserts an exported block of one slave, with its file and marker, for another slave.
-- Called by: the initial update of several slaves, in place of the blocks that blocks_hold kept.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, lo, hi, marker, rows, bytes, file, sum (SHA-256), planned_at.
-- Result: none.
-- Privileges: INSERT on BLOCKS.
INSERT INTO ${schema}.${prefix}blocks
    (slave, "schema", tablename, block, lo, hi, state, marker, "rows", bytes, "file", sha256, planned_at, stored_at)
VALUES (%(slave)s, %(table_schema)s, %(name)s, %(block)s, %(lo)s, %(hi)s, 'exported', %(marker)s, %(rows)s, %(bytes)s,
        %(file)s, %(sum)s, %(planned_at)s, ${clock})

-- name: blocks_again
-- Plans the blocks of a partial load again, with the marker and snapshot of a new snapshot; blocks that have caught up
--   stay.
-- Called by: a load job that begins, in a transaction that holds the checkpoint.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; marker, snapshot.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'planned', marker = %(marker)s, snapshot = %(snapshot)s, begun_at = NULL, stored_at = NULL, "rows" = NULL,
    bytes = NULL, loader = NULL, "file" = NULL, sha256 = NULL, tries = 0, retry_at = NULL
WHERE slave = %(slave)s AND NOT (state = 'stored' AND marker IS NULL)

-- name: blocks_begin
-- Marks a claimed block as begun, up to HI. The marker of a snapshot that is held for all blocks stays.
-- Called by: a loader, in the transaction that claimed the block, before it takes its snapshot on the master.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, hi, loader.
-- Result: no row changes if the block is no longer planned.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'begun', hi = %(hi)s, loader = %(loader)s, begun_at = ${clock}, stored_at = NULL, "rows" = NULL, bytes = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'planned'

-- name: blocks_caught_up
-- Marks a stored block as caught up: its rows are as of the checkpoint.
-- Called by: the apply, in the transaction of the changes that follow the block's marker.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, marker.
-- Result: none; no row changes if the block is another one by now.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks SET marker = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'stored' AND marker = %(marker)s

-- name: blocks_choose
-- Inserts a block of a table of which only parts are loaded: a part is planned; a range between two parts is stored, as
--   of the slave's checkpoint.
-- Called by: an initial update of a part of the slave.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, lo, hi, state; stored_at (of a stored one); planned_at.
-- Privileges: INSERT on BLOCKS.
INSERT INTO ${schema}.${prefix}blocks
    (slave, "schema", tablename, block, lo, hi, state, planned_at, stored_at)
VALUES (%(slave)s, %(table_schema)s, %(name)s, %(block)s, %(lo)s, %(hi)s, %(state)s, %(planned_at)s,
        %(stored_at)s)

-- name: blocks_claim
-- Selects the planned block to read next, and locks it until the caller commits.
-- Called by: a loader, on the slave.
-- Placeholders: ${prefix}, ${schema}, ${clock}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, marker, snapshot, tries; no row if other loaders have all of them.
-- Privileges: SELECT, UPDATE on BLOCKS.
SELECT "schema", tablename, block, lo, hi, marker, snapshot, tries
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'planned' AND (retry_at IS NULL OR retry_at <= ${clock}) AND ${rest}
ORDER BY planned_at, "schema", tablename, block
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: blocks_delete
-- Deletes blocks.
-- Called by: an initial update that begins, the apply when a table is dropped.
-- Placeholders: ${prefix}, ${schema}; ${tables} of which tables.
-- Parameters: slave, and those of ${tables}.
-- Privileges: DELETE on BLOCKS.
DELETE FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND ${tables}

-- name: blocks_export
-- Marks a block as exported: its file is complete.
-- Called by: an exporter, after it wrote the file.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, loader, marker, rows, bytes, file, sha256.
-- Result: no row changes if the block no longer belongs to this loader; the caller then removes its file.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'exported', stored_at = ${clock}, marker = %(marker)s, "rows" = %(rows)s, bytes = %(bytes)s,
    "file" = %(file)s, sha256 = %(sha256)s
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'begun' AND loader = %(loader)s

-- name: blocks_give_way
-- Plans a begun block again, because its rows are locked on the master. Other blocks are read first.
-- Called by: a loader that reads with locks.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, loader; retry_at: when it may be claimed again.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'planned', loader = NULL, begun_at = NULL, tries = tries + 1, retry_at = %(retry_at)s
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'begun' AND loader = %(loader)s

-- name: blocks_hold
-- Marks all planned blocks of a slave as begun by one loader, while they are read together with another slave's.
-- Called by: the initial update of several slaves, in the transaction that moves to TRANSITION.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, loader.
-- Result: none.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks SET state = 'begun', loader = %(loader)s, begun_at = ${clock}
WHERE slave = %(slave)s AND state = 'planned'

-- name: blocks_import
-- Selects the exported block to import next, the first by file name, and locks it until the caller commits.
-- Called by: an importer, on the slave.
-- Placeholders: ${prefix}, ${schema}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, file; no row if other importers have all of them.
-- Privileges: SELECT, UPDATE on BLOCKS.
SELECT "schema", tablename, block, lo, hi, "file"
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'exported' AND ${rest}
ORDER BY "file"
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: blocks_importing
-- Marks an exported block as begun by an importer; its marker stays.
-- Called by: an importer, in the transaction of blocks_import.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, loader.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'begun', loader = %(loader)s, begun_at = ${clock}, stored_at = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s

-- name: blocks_in_snapshot
-- Whether the blocks are read in one snapshot that a load job holds.
-- Called by: the load job.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: one boolean.
-- Privileges: SELECT on BLOCKS.
SELECT EXISTS (SELECT 1 FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND snapshot IS NOT NULL)

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
LIMIT 1

-- name: blocks_left
-- Counts the blocks that are not stored: planned, begun, exported.
-- Called by: a loader that found none to claim.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: one row of three numbers.
-- Privileges: SELECT on BLOCKS.
SELECT COUNT(CASE WHEN state = 'planned' THEN 1 END), COUNT(CASE WHEN state = 'begun' THEN 1 END),
       COUNT(CASE WHEN state = 'exported' THEN 1 END)
FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND state <> 'stored'

-- name: blocks_load
-- Reads the blocks of a slave's tables.
-- Called by: the apply while the slave is in TRANSITION, the loader.
-- Placeholders: ${prefix}, ${schema}; ${tables} of which tables.
-- Parameters: slave, and those of ${tables}.
-- Result: schema, tablename, block, lo, hi, state, marker, rows, bytes, loader, begun_at, stored_at, file, sha256,
--   snapshot.
-- Privileges: SELECT on BLOCKS.
SELECT "schema", tablename, block, lo, hi, state, marker, COALESCE("rows", 0), COALESCE(bytes, 0), loader, begun_at,
       stored_at, "file", sha256, snapshot
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND ${tables}

-- name: blocks_made
-- The tables that the running initial update created on the slave.
-- Called by: its preparation.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: schema, tablename.
-- Privileges: SELECT on BLOCKS.
SELECT DISTINCT "schema", tablename FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND made

-- name: blocks_mine
-- Whether a block is still begun by this loader.
-- Called by: a loader, while it copies.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, loader.
-- Result: one boolean.
-- Privileges: SELECT on BLOCKS.
SELECT EXISTS (SELECT 1 FROM ${schema}.${prefix}blocks
               WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
                 AND state = 'begun' AND loader = %(loader)s)

-- name: blocks_open
-- The tables with begun blocks, and the number of these blocks.
-- Called by: a loader that claims.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: schema, tablename, blocks.
-- Privileges: SELECT on BLOCKS.
SELECT "schema", tablename, COUNT(*) FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND state = 'begun'
GROUP BY "schema", tablename

-- name: blocks_planned
-- The planned blocks of one table.
-- Called by: a loader that reads for several slaves, on each but the first of them.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name.
-- Result: block, lo, hi.
-- Privileges: SELECT on BLOCKS.
SELECT block, lo, hi
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND state = 'planned'

-- name: blocks_progress
-- The progress of a load, one row for each table.
-- Called by: the initial update's progress.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; since: blocks that were stored later count for the rate.
-- Result: schema, tablename, blocks planned, begun, stored; rows, bytes stored or exported; rows since; blocks exported.
--   Ordered as the tables are loaded.
-- Privileges: SELECT on BLOCKS.
SELECT "schema", tablename,
       COUNT(CASE WHEN state = 'planned' THEN 1 END), COUNT(CASE WHEN state = 'begun' THEN 1 END),
       COUNT(CASE WHEN state = 'stored' THEN 1 END),
       COALESCE(SUM("rows"), 0), COALESCE(SUM(bytes), 0),
       COALESCE(SUM(CASE WHEN stored_at > %(since)s THEN "rows" END), 0),
       COUNT(CASE WHEN state = 'exported' THEN 1 END)
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s
GROUP BY "schema", tablename
ORDER BY MIN(planned_at), "schema", tablename

-- name: blocks_read_again
-- Plans the blocks of a table again that have not caught up.
-- Called by: the apply, before it follows a TRUNCATE or a change of the definition of a table that is loading.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name.
-- Result: none.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'planned', marker = NULL, snapshot = NULL, loader = NULL, begun_at = NULL, stored_at = NULL, "rows" = NULL,
    bytes = NULL
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s
  AND NOT (state = 'stored' AND marker IS NULL)

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
WHERE slave = %(slave)s AND state = 'begun' AND LEFT(loader, CHAR_LENGTH(%(kin)s)) = %(kin)s

-- name: blocks_reset
-- Deletes all blocks of some tables but the first, which is planned again.
-- Called by: a load from one snapshot that begins.
-- Placeholders: ${prefix}, ${schema}; ${tables} which tables these are.
-- Parameters: slave, and those of ${tables}.
-- Privileges: DELETE on BLOCKS.
DELETE FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND (block > 1 OR NOT (${tables}))

-- name: blocks_rest
-- Inserts the rest behind the end of a begun block as a planned block. The marker of a snapshot that is held for all
--   blocks is copied.
-- Called by: a loader, right after blocks_begin.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, hi, rest_hi.
-- Privileges: SELECT, INSERT on BLOCKS.
INSERT INTO ${schema}.${prefix}blocks (slave, "schema", tablename, block, lo, hi, state, planned_at, marker, snapshot)
SELECT b.slave, b."schema", b.tablename,
       (SELECT MAX(o.block) + 1 FROM ${schema}.${prefix}blocks o
        WHERE o.slave = %(slave)s AND o."schema" = %(table_schema)s AND o.tablename = %(name)s),
       %(hi)s, %(rest_hi)s, 'planned', b.planned_at, b.marker, b.snapshot
FROM ${schema}.${prefix}blocks b
WHERE b.slave = %(slave)s AND b."schema" = %(table_schema)s AND b.tablename = %(name)s AND b.block = %(block)s

-- name: blocks_store
-- Marks a block as stored; the last statement of the transaction that writes its rows.
-- Called by: a loader.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, loader, marker, rows, bytes.
-- Result: no row changes if the block no longer belongs to this loader; the caller then rolls back.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'stored', stored_at = ${clock}, marker = %(marker)s, "rows" = %(rows)s, bytes = %(bytes)s
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'begun' AND loader = %(loader)s
