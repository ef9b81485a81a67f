-- A change set aside by the policy on_conflict: reject. Called by: the apply, in its transaction.
-- Parameters: slave, repl_key, table_schema, table, action, content, oldcontent, reason.
INSERT INTO ${schema}.${prefix}rejects (slave, repl_key, schema, tablename, action, content, oldcontent, reason)
VALUES (%(slave)s, %(repl_key)s, %(table_schema)s, %(table)s, %(action)s, %(content)s, %(oldcontent)s, %(reason)s)
