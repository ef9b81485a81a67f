-- Inserts the first block of a table, with all its keys.
-- Called by: the initial update, for each table that it creates, and for all tables in the transaction that sets
--   TRANSITION.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name; planned_at; made 0 or 1: the update has just created the table; marker,
--   snapshot: of the snapshot in which all blocks are read (both NULL: each block in its own). Loaders claim blocks by
--   PLANNED_AT, and the rest of a split block keeps it: this is the order of the tables.
-- Result: none; an existing first block is planned again, in the new order.
-- Privileges: INSERT, UPDATE on BLOCKS.
-- Oldest version: Oracle 12.2.
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
