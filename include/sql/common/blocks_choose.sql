-- Inserts a block of a table of which only parts are loaded: a part is planned; a range between two parts is stored, as
-- of the slave's checkpoint.
-- Called by: an initial update of a part of the slave.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, name, block, lo, hi, state; stored_at (of a stored one); planned_at.
-- Privileges: INSERT on BLOCKS.
INSERT INTO ${schema}.${prefix}blocks
    (slave, "schema", tablename, block, lo, hi, state, planned_at, stored_at)
VALUES (%(slave)s, %(table_schema)s, %(name)s, %(block)s, %(lo)s, %(hi)s, %(state)s, %(planned_at)s,
        %(stored_at)s)
