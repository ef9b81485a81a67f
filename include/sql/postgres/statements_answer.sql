-- Stores the answer of the master or a slave to a query; the first answer counts.
-- Called by: sluice.operate.broadcast, the apply.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: id, place, answer.
-- Result: none.
-- Privileges: those of the account that installed.
-- Oldest version: PostgreSQL 14.
INSERT INTO ${schema}.${prefix}answers (id, place, answer)
SELECT s.id, %(place)s, %(answer)s FROM ${schema}.${prefix}statements s WHERE s.id = %(id)s
ON CONFLICT DO NOTHING
