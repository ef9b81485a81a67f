-- Inserts a reject (on_conflict: reject), or a conflict that a rule decided (conflict_rules); once, even if the change
-- is applied again.
-- Called by: the apply, in its transaction.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, repl_key, table_schema, table, action, content, oldcontent, held, reason, key_columns, keys,
--   newer, status, settled_by, answer.
-- Result: none.
-- Privileges: SELECT, INSERT on REJECTS.
-- Oldest version: Oracle 12.2.
INSERT INTO ${schema}.${prefix}rejects (
    slave, repl_key, "schema", tablename, action, content, oldcontent, held, reason, rejected_at, key_columns, "keys",
    newer, status, settled_by, settled_at, answer
)
SELECT %(slave)s, %(repl_key)s, %(table_schema)s, %(table)s, %(action)s, TO_CLOB(%(content)s), TO_CLOB(%(oldcontent)s),
    TO_CLOB(%(held)s), TO_CLOB(%(reason)s), ${clock}, TO_CLOB(%(key_columns)s), TO_CLOB(%(keys)s), %(newer)s,
    %(status)s, %(settled_by)s, CASE WHEN %(status)s <> 'set aside' THEN ${clock} END, TO_CLOB(%(answer)s)
FROM DUAL
WHERE NOT EXISTS (
    SELECT 1 FROM ${schema}.${prefix}rejects r
    WHERE r.slave = %(slave)s AND r.repl_key = %(repl_key)s AND r.action = %(action)s
      AND r."schema" = %(table_schema)s AND r.tablename = %(table)s)
