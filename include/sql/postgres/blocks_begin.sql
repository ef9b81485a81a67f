-- A claimed block is begun, ending at HI; what lay behind HI becomes a planned block of its own.
-- Called by: a loader, in the transaction that claimed the block, before it takes its snapshot on the master.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave, schema, name, block, hi, loader; rest bool, rest_hi.
-- A marker that was planned, of a snapshot held for all blocks, stays and goes to the rest as well.
-- Result: the block's number when it was still planned, else no row.
-- Privileges: SELECT, INSERT, UPDATE on BLOCKS. Oldest version: PostgreSQL 13.
WITH begun AS (
    UPDATE ${schema}.${prefix}blocks
    SET state = 'begun', hi = %(hi)s, loader = %(loader)s, begun_at = clock_timestamp(),
        stored_at = NULL, rows = NULL, bytes = NULL
    WHERE slave = %(slave)s AND schema = %(schema)s AND tablename = %(name)s AND block = %(block)s AND state = 'planned'
    RETURNING block, planned_at, marker, snapshot
), rest AS (
    INSERT INTO ${schema}.${prefix}blocks (slave, schema, tablename, block, lo, hi, state, planned_at, marker, snapshot)
    SELECT %(slave)s, %(schema)s, %(name)s,
           (SELECT max(b.block) + 1 FROM ${schema}.${prefix}blocks b
            WHERE b.slave = %(slave)s AND b.schema = %(schema)s AND b.tablename = %(name)s),
           %(hi)s, %(rest_hi)s, 'planned', begun.planned_at, begun.marker, begun.snapshot
    FROM begun WHERE %(rest)s
)
SELECT block FROM begun
