-- A change set aside by the policy on_conflict: reject, once however often it comes. Called by: the apply, in its
-- transaction.
-- Parameters: slave, repl_key, table_schema, table, action, content, oldcontent, held, reason, key_columns, keys, newer.
-- Placeholders: ${prefix}, ${schema}. Privileges: INSERT on REJECTS. Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}rejects (
    slave, repl_key, schema, tablename, action, content, oldcontent, held, reason, key_columns, keys, newer
)
SELECT %(slave)s, %(repl_key)s, %(table_schema)s, %(table)s, %(action)s, %(content)s, %(oldcontent)s, %(held)s, %(reason)s,
    %(key_columns)s::text[], %(keys)s::text[], %(newer)s
WHERE NOT EXISTS (
    SELECT FROM ${schema}.${prefix}rejects r
    WHERE r.slave = %(slave)s AND r.repl_key = %(repl_key)s AND r.action = %(action)s
      AND r.schema = %(table_schema)s AND r.tablename = %(table)s)
