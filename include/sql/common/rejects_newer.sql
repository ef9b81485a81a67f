-- Marks the reject of a row as outdated, because a newer change of this row was applied.
-- Called by: the apply, in its transaction.
-- Parameters: slave, table_schema, table, key, repl_key.
-- Placeholders: ${prefix}, ${schema}; ${among} a condition on the key of the change.
-- Privileges: SELECT, UPDATE on REJECTS.
UPDATE ${schema}.${prefix}rejects
SET newer = GREATEST(COALESCE(newer, 0), %(repl_key)s)
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(table)s
  AND status IN ('set aside', 'asked') AND ${among} AND repl_key < %(repl_key)s
