-- Newer changes of the same rows were applied: what is set aside of them is an older state from here on.
-- Called by: the apply, in its transaction. Parameters: slave, table_schema, table, keys text[] and as many repl_keys
-- bigint[]; keys NULL: of all rows, by the one repl_key (a TRUNCATE).
-- Placeholders: ${prefix}, ${schema}. Privileges: SELECT, UPDATE on REJECTS. Oldest version: PostgreSQL 13.
UPDATE ${schema}.${prefix}rejects r
SET newer = greatest(r.newer, x.repl_key)
FROM unnest(%(keys)s::text[], %(repl_keys)s::bigint[]) AS x (key, repl_key)
WHERE r.slave = %(slave)s AND r.schema = %(table_schema)s AND r.tablename = %(table)s
  AND r.status IN ('set aside', 'asked') AND (x.key IS NULL OR x.key = ANY (r.keys)) AND r.repl_key < x.repl_key
