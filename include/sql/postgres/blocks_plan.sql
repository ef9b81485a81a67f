-- The first blocks of a load: one a table, all its keys, in the order of the arrays.
-- Called by: the initial update, in the transaction that moves the slave to TRANSITION.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave; schemas text[], names text[] (pairs).
-- Result: none; a table that has blocks keeps them. Privileges: INSERT on BLOCKS. Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}blocks (slave, schema, tablename, block, state, planned_at)
-- Loaders take the blocks by PLANNED_AT, and what is left of a split block keeps it: this is the order of the tables.
SELECT %(slave)s, w.schema, w.name, 1, 'planned', now() + w.n * interval '1 microsecond'
FROM unnest(%(schemas)s::text[], %(names)s::text[]) WITH ORDINALITY AS w (schema, name, n)
WHERE NOT EXISTS (SELECT FROM ${schema}.${prefix}blocks b
                  WHERE b.slave = %(slave)s AND b.schema = w.schema AND b.tablename = w.name)
