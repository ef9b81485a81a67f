-- How many blocks are not stored yet: planned, begun. Called by: a loader that found none to claim.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
SELECT count(*) FILTER (WHERE state = 'planned')::int, count(*) FILTER (WHERE state = 'begun')::int
FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND state <> 'stored'
