-- Inserts the rest behind the end of a begun block as a planned block. The marker of a snapshot that is held for all
-- blocks is copied.
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
