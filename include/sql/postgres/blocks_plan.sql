-- The first blocks of a load: one a table, all its keys, in the order of the arrays.
-- Called by: the initial update, for each table it makes, and for all in the transaction that moves to TRANSITION.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave; schemas text[], names text[] (pairs); made bool: the update made
--   them just now; marker, snapshot: in which all are read (both NULL: each block in one of its own).
-- Result: none; the first block of a table that has it begins anew, in the new order. Privileges: INSERT, UPDATE on BLOCKS.
-- Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}blocks AS blocks (slave, schema, tablename, block, state, planned_at, made, marker, snapshot)
-- Loaders take the blocks by PLANNED_AT, and what is left of a split block keeps it: this is the order of the tables.
SELECT %(slave)s, w.schema, w.name, 1, 'planned', now() + w.n * interval '1 microsecond',
       %(made)s, %(marker)s, %(snapshot)s
FROM unnest(%(schemas)s::text[], %(names)s::text[]) WITH ORDINALITY AS w (schema, name, n)
ON CONFLICT (slave, schema, tablename, block) DO UPDATE
SET state = 'planned', lo = NULL, hi = NULL, planned_at = excluded.planned_at, begun_at = NULL, stored_at = NULL,
    marker = excluded.marker, snapshot = excluded.snapshot, rows = NULL, bytes = NULL, loader = NULL, file = NULL,
    sha256 = NULL, tries = 0, retry_at = NULL, made = blocks.made OR excluded.made
