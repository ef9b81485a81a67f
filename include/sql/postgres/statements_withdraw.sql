-- Deletes a query that the master cannot answer.
-- Called by: sluice.operate.broadcast.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: id.
-- Result: none.
-- Privileges: those of the account that installed.
-- Oldest version: PostgreSQL 14.
WITH withdrawn AS (DELETE FROM ${schema}.${prefix}statements WHERE id = %(id)s RETURNING id)
DELETE FROM ${schema}.${prefix}answers WHERE id IN (SELECT id FROM withdrawn)
