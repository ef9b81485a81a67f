-- The backlog in ITEMS. Each statement is a section with its name.
-- Placeholders: ${prefix}, ${schema}.
-- Oldest version: PostgreSQL 14.

-- name: backlog
-- How many changes are in ITEMS, their size, and which slaves hold the purge.
-- Called by: housekeeping, ./sluice status, on the master.
-- Result: changes (counted up to 100,000, then estimated), bytes, the note of who holds the purge (or NULL).
-- Privileges: SELECT on ITEMS and INFO.
SELECT CASE WHEN few.changes > 100000 THEN greatest(few.changes,
                (SELECT (c.reltuples / greatest(c.relpages, 1) * pg_catalog.pg_relation_size(c.oid) / 8192)::bigint
                 FROM pg_catalog.pg_class c WHERE c.oid = '${schema}.${prefix}items'::pg_catalog.regclass))
            ELSE few.changes END,
       pg_catalog.pg_total_relation_size('${schema}.${prefix}items'::pg_catalog.regclass),
       (SELECT f.value FROM ${schema}.${prefix}info f WHERE f.name = 'purge_held')
FROM (SELECT count(*) AS changes FROM (SELECT FROM ${schema}.${prefix}items LIMIT 100001) x) few

-- name: backlog_held
-- Records which slaves hold the purge. Slaves that are recorded already keep their time; without slaves the record is
--   deleted.
-- Called by: housekeeping, on the master.
-- Parameters: slaves text[].
-- Result: none.
-- Privileges: INSERT, UPDATE, DELETE on INFO.
WITH gone AS (
    DELETE FROM ${schema}.${prefix}info f WHERE f.name = 'purge_held' AND %(slaves)s::text[] = '{}'
)
INSERT INTO ${schema}.${prefix}info AS f (name, value)
SELECT 'purge_held', pg_catalog.jsonb_build_object('slaves', %(slaves)s::text[], 'since', pg_catalog.now())::text
WHERE %(slaves)s::text[] <> '{}'
ON CONFLICT (name) DO UPDATE
SET value = CASE
    WHEN (SELECT pg_catalog.bool_or((f.value::jsonb -> 'slaves') ? s) FROM pg_catalog.unnest(%(slaves)s::text[]) s)
        THEN pg_catalog.jsonb_set(f.value::jsonb, '{slaves}', pg_catalog.to_jsonb(%(slaves)s::text[]))::text
    ELSE excluded.value END
