-- The tables of TABLES with the obvious faults of their capture. A quick check; capture_faults() also examines the code
-- of each trigger.
-- Called by: the initial update, before it takes the start position.
-- Placeholders: ${prefix}, ${schema}.
-- Result: schema, name, fault (NULL: captured).
-- Privileges: those of the account that installed them.
-- Oldest version: PostgreSQL 14.
SELECT t.schemaname, t.tablename,
       CASE
           WHEN c.oid IS NULL THEN 'the table does not exist'
           WHEN h.relid IS NULL OR t.status <> 'OK' THEN 'its triggers are still being made'
           WHEN h.relid <> c.oid THEN 'the table was made again'
           WHEN u.reason IS NOT NULL THEN u.reason
           ELSE (SELECT format('trigger "%s" is missing or disabled', w.name) FROM unnest(h.triggers) AS w (name)
                 -- Those on partitions end in _p.
                 WHERE right(w.name, 2) <> '_p'
                   AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g
                                   WHERE g.tgname = w.name AND g.tgenabled IN ('O', 'A') AND g.tgrelid = h.relid)
                 LIMIT 1)
       END
FROM ${schema}.${prefix}tables t
LEFT JOIN ${schema}.${prefix}captures h ON h.schemaname = t.schemaname AND h.tablename = t.tablename
LEFT JOIN ${schema}.${prefix}unseen() u ON u.schemaname = t.schemaname AND u.tablename = t.tablename
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
