-- REJECTS. Each statement is a section with its name.
-- Oldest version: Oracle 12.2.

-- name: rejects_put
-- Inserts a reject (on_conflict: reject), or a conflict that a rule decided (conflict_rules); once, even if the change is
--   applied again.
-- Called by: the apply, in its transaction.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, repl_key, table_schema, table, action, content, oldcontent, held, reason, key_columns, keys, newer,
--   status, settled_by, answer.
-- Result: none.
-- Privileges: SELECT, INSERT on REJECTS.
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

-- name: rejects_read
-- Reads rejects, oldest first.
-- Called by: the apply (those still open, and the one it carries out), the DAG rejects (to show them).
-- Placeholders: ${prefix}, ${schema}; ${ids}, ${statuses} which; ${lock}: FOR UPDATE or nothing.
-- Parameters: slave, number at most, and those of ${ids} and ${statuses}.
-- Result: one row a reject. The limit is in an inner query, since Oracle allows none with FOR UPDATE.
-- Privileges: SELECT, UPDATE on REJECTS.
SELECT id, repl_key, "schema", tablename, action, content, oldcontent, held, reason, rejected_at, key_columns, "keys",
       newer, status, "force", asked_by, asked_at, settled_by, settled_at, answer
FROM ${schema}.${prefix}rejects
WHERE id IN (SELECT o.id FROM (SELECT id FROM ${schema}.${prefix}rejects
                               WHERE slave = %(slave)s AND ${statuses} AND ${ids}
                               ORDER BY repl_key, id) o
             WHERE ROWNUM <= %(number)s)
ORDER BY repl_key, id
${lock}
