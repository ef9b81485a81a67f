-- What the master has recorded of readers (position_record.sql).
-- Called by: sluice.vendors.postgres.source.queue.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: runs, names of sessions.
-- Result: run; the highest recorded REPL_KEY; whether the row is the one that was written, not a copy that a dump made.
-- Privileges: SELECT on INFO. Oldest version: PostgreSQL 14.
SELECT substr(i.name, 5), split_part(i.value, ' ', 1)::bigint,
       split_part(i.value, ' ', 2)::numeric %% 4294967296 = i.xmin::text::numeric
       AND split_part(i.value, ' ', 3) = i.tableoid::text
FROM ${schema}.${prefix}info i
WHERE i.name = ANY (SELECT 'run ' || r FROM unnest(%(runs)s::text[]) r)
