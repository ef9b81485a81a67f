-- Queues a query at a position, and deletes those that are older than a quarter of a year.
-- Called by: sluice.operate.broadcast, under a lock on ITEMS.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: statement, slaves text[], seconds, shown, position, person.
-- Result: its number, and a snapshot to read in.
-- Privileges: those of the account that installed.
-- Oldest version: PostgreSQL 14.
WITH old AS (
    DELETE FROM ${schema}.${prefix}statements WHERE asked_at < now() - interval '90 days' RETURNING id
), forgotten AS (
    DELETE FROM ${schema}.${prefix}answers WHERE id IN (SELECT id FROM old)
)
INSERT INTO ${schema}.${prefix}statements (statement, slaves, seconds, shown, position, asked_by)
VALUES (%(statement)s, %(slaves)s, %(seconds)s, %(shown)s, %(position)s, %(person)s)
RETURNING id, pg_catalog.pg_export_snapshot()
