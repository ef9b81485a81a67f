-- Blocks that were exported for another slave, for this one: in files, with their markers.
-- Called by: the initial update of several slaves, in place of the blocks that blocks_hold.sql kept.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave; arrays of one entry a block: schemas, names, blocks, los, his,
--   markers, rows, bytes, files, sums (SHA-256).
-- Result: none. Privileges: INSERT on BLOCKS. Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}blocks
    (slave, schema, tablename, block, lo, hi, state, marker, rows, bytes, file, sha256, planned_at, stored_at)
SELECT %(slave)s, b.schema, b.name, b.block, b.lo, b.hi, 'exported', b.marker, b.rows, b.bytes, b.file, b.sum,
       now() + b.n * interval '1 microsecond', now()
FROM unnest(%(schemas)s::text[], %(names)s::text[], %(blocks)s::int[], %(los)s::text[], %(his)s::text[],
            %(markers)s::text[], %(rows)s::bigint[], %(bytes)s::bigint[], %(files)s::text[], %(sums)s::text[])
    WITH ORDINALITY AS b (schema, name, block, lo, hi, marker, rows, bytes, file, sum, n)
