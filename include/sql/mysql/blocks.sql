-- BLOCKS. Each statement is a section with its name.

-- name: blocks_claim
-- Selects the planned block to read next, and locks it until the caller commits.
-- Called by: a loader, on the slave.
-- Placeholders: ${prefix}, ${schema}, ${clock}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, marker, snapshot, tries; no row if other loaders have all of them.
-- Privileges: SELECT, UPDATE on BLOCKS.
-- Oldest version: MariaDB 10.6, MySQL 8.0. InnoDB locks each row that it reads. The index is in the order of the result,
--   so that only one row is read.
SELECT "schema", tablename, block, lo, hi, marker, snapshot, tries
FROM ${schema}.${prefix}blocks FORCE INDEX (in_order)
WHERE slave = %(slave)s AND state = 'planned' AND (retry_at IS NULL OR retry_at <= ${clock}) AND ${rest}
ORDER BY planned_at, "schema", tablename, block
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: blocks_import
-- Selects the exported block to import next, the first by file name, and locks it until the caller commits.
-- Called by: an importer, on the slave.
-- Placeholders: ${prefix}, ${schema}; ${rest} which tables to pass over.
-- Parameters: slave, and those of ${rest}.
-- Result: schema, tablename, block, lo, hi, file; no row if other importers have all of them.
-- Privileges: SELECT, UPDATE on BLOCKS.
-- Oldest version: MariaDB 10.6, MySQL 8.0. The index is forced for the reason given in blocks_claim.
SELECT "schema", tablename, block, lo, hi, file
FROM ${schema}.${prefix}blocks FORCE INDEX (in_files)
WHERE slave = %(slave)s AND state = 'exported' AND ${rest}
ORDER BY file
LIMIT 1
FOR UPDATE SKIP LOCKED

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
-- Oldest version: MariaDB 10.6, MySQL 8.0.
INSERT INTO ${schema}.${prefix}blocks (slave, "schema", tablename, block, state, planned_at, made, marker, snapshot)
VALUES (%(slave)s, %(table_schema)s, %(name)s, 1, 'planned', %(planned_at)s, %(made)s, %(marker)s, %(snapshot)s)
ON DUPLICATE KEY UPDATE
    state = 'planned', lo = NULL, hi = NULL, planned_at = %(planned_at)s, begun_at = NULL, stored_at = NULL,
    marker = %(marker)s, snapshot = %(snapshot)s, "rows" = NULL, bytes = NULL, loader = NULL, file = NULL,
    sha256 = NULL, tries = 0, retry_at = NULL, made = made OR %(made)s
