-- Inserts a reject (on_conflict: reject), or a conflict that a rule decided (conflict_rules); once, even if the change
-- is applied again.
-- Called by: the apply, in its transaction.
-- Parameters: slave, repl_key, table_schema, table, action, content, oldcontent, held, reason, key_columns, keys,
--   newer, status, settled_by, answer.
-- Placeholders: ${prefix}, ${schema}.
-- Privileges: SELECT, INSERT on REJECTS.
INSERT INTO ${schema}.${prefix}rejects (
    slave, repl_key, "schema", tablename, action, content, oldcontent, held, reason, key_columns, "keys", newer,
    status, settled_by, settled_at, answer
)
SELECT %(slave)s, %(repl_key)s, %(table_schema)s, %(table)s, %(action)s, %(content)s, %(oldcontent)s, %(held)s, %(reason)s,
    %(key_columns)s, %(keys)s, %(newer)s, %(status)s, %(settled_by)s,
    CASE WHEN %(status)s <> 'set aside' THEN ${clock} END, %(answer)s
FROM (SELECT 1 AS one) AS once
WHERE NOT EXISTS (
    SELECT 1 FROM ${schema}.${prefix}rejects r
    WHERE r.slave = %(slave)s AND r.repl_key = %(repl_key)s AND r.action = %(action)s
      AND r."schema" = %(table_schema)s AND r.tablename = %(table)s)
