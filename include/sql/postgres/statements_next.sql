-- The oldest query that a slave has not answered.
-- Called by: its apply, before each window.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: slave.
-- Result: number, statement, seconds, rows to keep, position.
-- Privileges: those of the account that installed.
-- Oldest version: PostgreSQL 14.
SELECT s.id, s.statement, s.seconds, s.shown, s.position FROM ${schema}.${prefix}statements s
WHERE %(slave)s = ANY (s.slaves)
  AND NOT EXISTS (SELECT FROM ${schema}.${prefix}answers a WHERE a.id = s.id AND a.place = %(slave)s)
ORDER BY s.id LIMIT 1
