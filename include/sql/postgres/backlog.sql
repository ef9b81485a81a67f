-- How many changes are in ITEMS, their size, and which slaves hold the purge.
-- Called by: housekeeping, ./sluice status, on the master.
-- Placeholders: ${prefix}, ${schema}.
-- Result: changes (by their keys), bytes, the note of who holds the purge (or NULL).
-- Privileges: SELECT on ITEMS and INFO.
-- Oldest version: PostgreSQL 14.
SELECT coalesce((SELECT max(i.repl_key) FROM ${schema}.${prefix}items i)
                - (SELECT min(i.repl_key) FROM ${schema}.${prefix}items i) + 1, 0),
       pg_catalog.pg_total_relation_size('${schema}.${prefix}items'::pg_catalog.regclass),
       (SELECT f.value FROM ${schema}.${prefix}info f WHERE f.name = 'purge_held')
