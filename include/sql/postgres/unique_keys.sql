-- Unique indexes and exclusion constraints of a table of the slave.
-- Called by: sluice.vendors.postgres.target.change_statements, for safe mode, which deletes rows that conflict with a newer one.
-- Parameters: $1 schema, $2 name.
-- Result: a row an index: expressions text[] (columns by their unqualified names), operators text[] (qualified),
--   predicate text (NULL: none), NULL equal to NULL bool, columns text[] (NULL where it has expressions), whether it is
--   deferrable; oldest first.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT array_agg(pg_catalog.pg_get_indexdef(i.indexrelid, p.place::int, true) ORDER BY p.place),
       array_agg(coalesce(
           (SELECT pg_catalog.format('OPERATOR(%I.%s)', n.nspname, o.oprname)
            FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
            WHERE o.oid = x.conexclop[p.place]),
           (SELECT pg_catalog.format('OPERATOR(%I.%s)', n.nspname, o.oprname)
            FROM pg_catalog.pg_opclass c
            JOIN pg_catalog.pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype
                AND m.amoprighttype = c.opcintype AND m.amopstrategy = 3
            JOIN pg_catalog.pg_operator o ON o.oid = m.amopopr
            JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
            WHERE c.oid = i.indclass[p.place - 1])) ORDER BY p.place),
       pg_catalog.pg_get_expr(i.indpred, i.indrelid, true),
       coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false),
       CASE WHEN i.indexprs IS NULL THEN array_agg(a.attname::text ORDER BY p.place) END,
       NOT i.indimmediate
FROM pg_catalog.pg_namespace s
JOIN pg_catalog.pg_class t ON t.relnamespace = s.oid
JOIN pg_catalog.pg_index i ON i.indrelid = t.oid
LEFT JOIN pg_catalog.pg_constraint x ON x.conindid = i.indexrelid AND x.contype = 'x'
CROSS JOIN LATERAL pg_catalog.generate_series(1, i.indnkeyatts) AS p (place)
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[p.place - 1]
WHERE s.nspname = $1 AND t.relname = $2 AND t.relkind IN ('r', 'p') AND (i.indisunique OR i.indisexclusion)
GROUP BY i.indexrelid, i.indrelid, i.indpred, i.indexprs, i.indimmediate, pg_catalog.to_jsonb(i)
ORDER BY i.indexrelid
