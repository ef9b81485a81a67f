-- Queries that people ask of the master and all slaves. Each statement is a section with its name.
-- Privileges: those of the account that installed.
-- Oldest version: PostgreSQL 14.

-- name: statements_answer
-- Stores the answer of the master or a slave to a query; the first answer counts.
-- Called by: sluice.operate.broadcast, the apply.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: id, place, answer.
-- Result: none.
INSERT INTO ${schema}.${prefix}answers (id, place, answer)
SELECT s.id, %(place)s, %(answer)s FROM ${schema}.${prefix}statements s WHERE s.id = %(id)s
ON CONFLICT DO NOTHING

-- name: statements_next
-- The oldest query that a slave has not answered.
-- Called by: its apply, before each window.
-- Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: number, statement, seconds, rows to keep, position.
SELECT s.id, s.statement, s.seconds, s.shown, s.position FROM ${schema}.${prefix}statements s
WHERE %(slave)s = ANY (s.slaves)
  AND NOT EXISTS (SELECT FROM ${schema}.${prefix}answers a WHERE a.id = s.id AND a.place = %(slave)s)
ORDER BY s.id LIMIT 1

-- name: statements_put
-- Queues a query at a position, and deletes those that are older than a quarter of a year.
-- Called by: sluice.operate.broadcast, under a lock on ITEMS.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: statement, slaves text[], seconds, shown, position, person.
-- Result: its number, and a snapshot to read in.
WITH old AS (
    DELETE FROM ${schema}.${prefix}statements WHERE asked_at < now() - interval '90 days' RETURNING id
), forgotten AS (
    DELETE FROM ${schema}.${prefix}answers WHERE id IN (SELECT id FROM old)
)
INSERT INTO ${schema}.${prefix}statements (statement, slaves, seconds, shown, position, asked_by)
VALUES (%(statement)s, %(slaves)s, %(seconds)s, %(shown)s, %(position)s, %(person)s)
RETURNING id, pg_catalog.pg_export_snapshot()

-- name: statements_read
-- Reads queries with their answers, newest first.
-- Called by: sluice.operate.broadcast.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: id (NULL: all), number: how many at most.
-- Result: number, statement, slaves text[], who asked, when (ISO 8601, UTC), JSON: place → answer.
SELECT s.id, s.statement, s.slaves, s.asked_by, to_char(s.asked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       (SELECT coalesce(jsonb_object_agg(a.place, a.answer), '{}') FROM ${schema}.${prefix}answers a WHERE a.id = s.id)
FROM ${schema}.${prefix}statements s
WHERE %(id)s::bigint IS NULL OR s.id = %(id)s::bigint
ORDER BY s.id DESC LIMIT %(number)s

-- name: statements_withdraw
-- Deletes a query that the master cannot answer.
-- Called by: sluice.operate.broadcast.
-- Placeholders: ${prefix}, ${schema}. Parameter: id.
-- Result: none.
WITH withdrawn AS (DELETE FROM ${schema}.${prefix}statements WHERE id = %(id)s RETURNING id)
DELETE FROM ${schema}.${prefix}answers WHERE id IN (SELECT id FROM withdrawn)
