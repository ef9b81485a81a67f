-- How far a load is, one row a table. Called by: the initial update's progress. Placeholders: ${prefix}, ${schema}.
-- STORED_AT is also when a block was exported.
-- Parameters: slave; seconds float8: over how long the rate is taken.
-- Result: schema, tablename, blocks planned, begun, stored; rows, bytes stored or exported; rows per second lately;
--   when the first was begun and the last stored; blocks exported. Ordered as the tables are loaded.
SELECT schema, tablename,
       count(*) FILTER (WHERE state = 'planned'), count(*) FILTER (WHERE state = 'begun'),
       count(*) FILTER (WHERE state = 'stored'),
       coalesce(sum(rows), 0)::bigint, coalesce(sum(bytes), 0)::bigint,
       coalesce(sum(rows) FILTER (WHERE stored_at > clock_timestamp() - %(seconds)s * interval '1 second'), 0)::float8
           / %(seconds)s::float8,
       min(begun_at), max(stored_at), count(*) FILTER (WHERE state = 'exported')
FROM ${schema}.${prefix}blocks
WHERE slave = %(slave)s
GROUP BY schema, tablename
ORDER BY min(planned_at), schema, tablename
