-- Inserts an exported block of one slave, with its file and marker, for another slave.
-- Called by: the initial update of several slaves, in place of the blocks that blocks_hold.sql kept.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, lo, hi, marker, rows, bytes, file, sum (SHA-256), planned_at.
-- Result: none.
-- Privileges: INSERT on BLOCKS.
INSERT INTO ${schema}.${prefix}blocks
    (slave, "schema", tablename, block, lo, hi, state, marker, "rows", bytes, "file", sha256, planned_at, stored_at)
VALUES (%(slave)s, %(table_schema)s, %(name)s, %(block)s, %(lo)s, %(hi)s, 'exported', %(marker)s, %(rows)s, %(bytes)s,
        %(file)s, %(sum)s, %(planned_at)s, ${clock})
