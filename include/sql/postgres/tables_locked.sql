-- Tables that a session has locked, or waits to lock, themselves, a partition or a sequence, so that nobody can read them:
-- reading their definitions would wait.
-- Called by: whatever reads definitions, on the master.
-- Parameters: schemas text[], names text[] (pairs).
-- Result: schema, name.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH RECURSIVE locked AS MATERIALIZED (
    -- A lock that only writers of a table must wait for keeps readers of a sequence waiting, too.
    SELECT c.oid, c.relkind FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
    WHERE l.locktype = 'relation'
      AND (l.mode = 'AccessExclusiveLock' OR c.relkind = 'S' AND l.mode IN ('ShareRowExclusiveLock', 'ExclusiveLock'))
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
), holders (oid) AS (
    SELECT oid FROM locked
    UNION
    SELECT coalesce(d.refobjid, f.adrelid)
    FROM locked s
    LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = s.oid
        AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')
    LEFT JOIN pg_catalog.pg_depend u ON u.classid = 'pg_catalog.pg_attrdef'::regclass AND u.refobjid = s.oid
        AND u.refclassid = 'pg_catalog.pg_class'::regclass
    LEFT JOIN pg_catalog.pg_attrdef f ON f.oid = u.objid
    WHERE s.relkind = 'S'
    UNION
    SELECT i.inhparent FROM holders h JOIN pg_catalog.pg_inherits i ON i.inhrelid = h.oid
    JOIN pg_catalog.pg_class c ON c.oid = h.oid AND c.relispartition
)
SELECT w.schema, w.name
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
WHERE c.oid IN (SELECT oid FROM holders)
