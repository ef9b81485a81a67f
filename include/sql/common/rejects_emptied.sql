-- Marks the rejects of a table that was emptied as outdated.
-- Called by: the apply, in its transaction.
-- Parameters: slave, table_schema, table, repl_key.
-- Placeholders: ${prefix}, ${schema}.
-- Privileges: SELECT, UPDATE on REJECTS.
UPDATE ${schema}.${prefix}rejects
SET newer = GREATEST(COALESCE(newer, 0), %(repl_key)s)
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(table)s
  AND status IN ('set aside', 'asked') AND repl_key < %(repl_key)s
