-- The first blocks of a load: one a table, all its keys, in the order of the arrays.
-- Called by: the initial update, for each table it makes, and for all in the transaction that moves to TRANSITION.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave; schemas text[], names text[] (pairs).
-- Result: none; a table that has blocks keeps them, in the new order. Privileges: INSERT, UPDATE on BLOCKS.
-- Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}blocks (slave, schema, tablename, block, state, planned_at)
-- Loaders take the blocks by PLANNED_AT, and what is left of a split block keeps it: this is the order of the tables.
SELECT %(slave)s, w.schema, w.name, 1, 'planned', now() + w.n * interval '1 microsecond'
FROM unnest(%(schemas)s::text[], %(names)s::text[]) WITH ORDINALITY AS w (schema, name, n)
ON CONFLICT (slave, schema, tablename, block) DO UPDATE SET planned_at = excluded.planned_at
