-- Snapshots. Each statement is a section with its name.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.

-- name: snapshot_now
-- The snapshot of the server: which transactions have ended. A cheap test whether there is anything to read.
-- Called by: the apply, between its turns.
-- Placeholders: none.
-- Result: one row: snapshot text.
SELECT pg_catalog.pg_current_snapshot()::text

-- name: snapshot_whole
-- Whether a table still has the rows that the snapshot of this transaction saw. TRUNCATE and statements that rewrite a
--   table leave it empty for older snapshots. A scan by SQL reads the catalogues as the snapshot saw them, functions read
--   them as they are now.
-- Called by: loaders, comparisons and repairs, in a transaction of that snapshot, after it locked the table.
-- Parameters: schema, name.
-- Result: one boolean, NULL if the snapshot saw no such table.
WITH RECURSIVE seen AS (
    SELECT c.oid, c.relkind, c.relfilenode
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s::text AND c.relname = %(name)s::text
), tree AS (
    SELECT s.oid, s.relfilenode, s.relkind FROM seen s
    UNION ALL
    SELECT c.oid, c.relfilenode, c.relkind
    FROM tree t
    JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    WHERE t.relkind = 'p'
)
SELECT (SELECT s.oid FROM seen s) = to_regclass(format('%%I.%%I', %(schema)s::text, %(name)s::text))
   AND (SELECT bool_and(t.relkind <> 'r' OR t.relfilenode IS NOT DISTINCT FROM pg_relation_filenode(t.oid)) FROM tree t)
   AND CASE WHEN (SELECT s.relkind FROM seen s) = 'p'
            THEN (SELECT array_agg(t.oid ORDER BY t.oid) FROM tree t)
               = (SELECT array_agg(p.relid::oid ORDER BY p.relid::oid) FROM pg_partition_tree((SELECT s.oid FROM seen s)) p)
            ELSE true END
