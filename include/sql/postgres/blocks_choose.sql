-- The blocks of a table of which parts are loaded: those parts are planned; what lies between them is stored already, as
-- of the slave's position. Called by: an initial update of a part of the slave. Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, schema, name; los text[], his text[], chosen bool[]; marker: the slave's position; place int: how
--   many tables come before. Privileges: INSERT on BLOCKS. Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}blocks
    (slave, schema, tablename, block, lo, hi, state, marker, planned_at, stored_at)
SELECT %(slave)s, %(schema)s, %(name)s, w.n, w.lo, w.hi, CASE WHEN w.chosen THEN 'planned' ELSE 'stored' END,
       CASE WHEN w.chosen THEN NULL ELSE %(marker)s END, now() + %(place)s * interval '1 microsecond',
       CASE WHEN w.chosen THEN NULL ELSE now() END
FROM unnest(%(los)s::text[], %(his)s::text[], %(chosen)s::bool[]) WITH ORDINALITY AS w (lo, hi, chosen, n)
