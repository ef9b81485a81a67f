-- Records which slaves hold the purge. Slaves that are recorded already keep their time; without slaves the record is
-- deleted.
-- Called by: housekeeping, on the master.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slaves text[].
-- Result: none.
-- Privileges: INSERT, UPDATE, DELETE on INFO.
-- Oldest version: PostgreSQL 14.
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
