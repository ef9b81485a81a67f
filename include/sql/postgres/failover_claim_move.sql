-- Moves the claim of a failover to another phase, or deletes it. The first move wins, so that a switch and an abort
-- exclude each other.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources.
-- Parameters: id, phases text[]: the phases in which it may be moved; phase (NULL: the claim is deleted).
-- Result: one row if it was in such a phase.
-- Privileges: UPDATE, DELETE on INFO.
-- Oldest version: PostgreSQL 14.
WITH found AS (
    SELECT name FROM ${schema}.${prefix}info
    WHERE name = 'failover' AND value::jsonb ->> 'id' = %(id)s AND value::jsonb ->> 'phase' = ANY (%(phases)s) FOR UPDATE
), moved AS (
    UPDATE ${schema}.${prefix}info i SET value = jsonb_set(i.value::jsonb, '{phase}', to_jsonb(%(phase)s::text))::text
    FROM found f WHERE i.name = f.name AND %(phase)s::text IS NOT NULL RETURNING 1
), gone AS (
    DELETE FROM ${schema}.${prefix}info i USING found f WHERE i.name = f.name AND %(phase)s::text IS NULL RETURNING 1
)
SELECT * FROM moved UNION ALL SELECT * FROM gone
