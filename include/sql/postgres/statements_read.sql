-- Reads queries with their answers, newest first.
-- Called by: sluice.operate.broadcast.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: id (NULL: all), number: how many at most.
-- Result: number, statement, slaves text[], who asked, when (ISO 8601, UTC), JSON: place → answer.
-- Privileges: those of the account that installed.
-- Oldest version: PostgreSQL 14.
SELECT s.id, s.statement, s.slaves, s.asked_by, to_char(s.asked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       (SELECT coalesce(jsonb_object_agg(a.place, a.answer), '{}') FROM ${schema}.${prefix}answers a WHERE a.id = s.id)
FROM ${schema}.${prefix}statements s
WHERE %(id)s::bigint IS NULL OR s.id = %(id)s::bigint
ORDER BY s.id DESC LIMIT %(number)s
