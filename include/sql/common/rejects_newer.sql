-- A newer change of the same row was applied: its reject is an older state from here on.
-- Called by: the apply, in its transaction. Parameters: slave, table_schema, table, key, repl_key.
-- Placeholders: ${prefix}, ${schema}; ${among} the condition that the key is one of a change's.
-- Privileges: SELECT, UPDATE on REJECTS.
UPDATE ${schema}.${prefix}rejects
SET newer = GREATEST(COALESCE(newer, 0), %(repl_key)s)
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(table)s
  AND status IN ('set aside', 'asked') AND ${among} AND repl_key < %(repl_key)s
