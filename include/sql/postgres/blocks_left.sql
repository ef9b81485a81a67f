-- How many blocks are not stored yet: planned, begun, exported. Called by: a loader that found none to claim.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
SELECT count(*) FILTER (WHERE state = 'planned')::int, count(*) FILTER (WHERE state = 'begun')::int,
       count(*) FILTER (WHERE state = 'exported')::int
FROM ${schema}.${prefix}blocks WHERE slave = %(slave)s AND state <> 'stored'
