-- Inserts the first block of a table, with all its keys.
-- Called by: the initial update, for each table that it creates, and for all tables in the transaction that sets
--   TRANSITION.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name; planned_at; made bool: the update has just created the table; marker,
--   snapshot: of the snapshot in which all blocks are read (both NULL: each block in its own). Loaders claim blocks by
--   PLANNED_AT, and the rest of a split block keeps it: this is the order of the tables.
-- Result: none; an existing first block is planned again, in the new order.
-- Privileges: INSERT, UPDATE on BLOCKS.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
INSERT INTO ${schema}.${prefix}blocks (slave, "schema", tablename, block, state, planned_at, made, marker, snapshot)
VALUES (%(slave)s, %(table_schema)s, %(name)s, 1, 'planned', %(planned_at)s, %(made)s, %(marker)s, %(snapshot)s)
ON DUPLICATE KEY UPDATE
    state = 'planned', lo = NULL, hi = NULL, planned_at = %(planned_at)s, begun_at = NULL, stored_at = NULL,
    marker = %(marker)s, snapshot = %(snapshot)s, "rows" = NULL, bytes = NULL, loader = NULL, file = NULL,
    sha256 = NULL, tries = 0, retry_at = NULL, made = made OR %(made)s
