-- How many changes are in ITEMS, their size, and which slaves hold the purge.
-- Called by: housekeeping, ./sluice status, on the master.
-- Placeholders: ${prefix}, ${schema}.
-- Result: changes (counted up to 100,000, then estimated), bytes, the note of who holds the purge (or NULL).
-- Privileges: SELECT on ITEMS and INFO.
-- Oldest version: PostgreSQL 14.
SELECT CASE WHEN few.changes > 100000 THEN greatest(few.changes,
                (SELECT (c.reltuples / greatest(c.relpages, 1) * pg_catalog.pg_relation_size(c.oid) / 8192)::bigint
                 FROM pg_catalog.pg_class c WHERE c.oid = '${schema}.${prefix}items'::pg_catalog.regclass))
            ELSE few.changes END,
       pg_catalog.pg_total_relation_size('${schema}.${prefix}items'::pg_catalog.regclass),
       (SELECT f.value FROM ${schema}.${prefix}info f WHERE f.name = 'purge_held')
FROM (SELECT count(*) AS changes FROM (SELECT FROM ${schema}.${prefix}items LIMIT 100001) x) few
