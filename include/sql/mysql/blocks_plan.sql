-- The first block of a table to load: all its keys.
-- Called by: the initial update, for each table it makes, and for all in the transaction that moves to TRANSITION.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave, table_schema, name; planned_at; made bool: the update made the table
--   just now; marker, snapshot: in which all are read (both NULL: each block in one of its own).
-- Loaders take the blocks by PLANNED_AT, and what is left of a split block keeps it: this is the order of the tables.
-- Result: none; the first block of a table that has it begins anew, in the new order. Privileges: INSERT, UPDATE on BLOCKS.
INSERT INTO ${schema}.${prefix}blocks (slave, "schema", tablename, block, state, planned_at, made, marker, snapshot)
VALUES (%(slave)s, %(table_schema)s, %(name)s, 1, 'planned', %(planned_at)s, %(made)s, %(marker)s, %(snapshot)s)
ON DUPLICATE KEY UPDATE
    state = 'planned', lo = NULL, hi = NULL, planned_at = %(planned_at)s, begun_at = NULL, stored_at = NULL,
    marker = %(marker)s, snapshot = %(snapshot)s, "rows" = NULL, bytes = NULL, loader = NULL, file = NULL,
    sha256 = NULL, tries = 0, retry_at = NULL, made = made OR %(made)s
