-- Reads rejects, oldest first.
-- Called by: the apply (those still open, and the one it carries out), the DAG rejects (to show them).
-- Placeholders: ${prefix}, ${schema}; ${ids}, ${statuses} which; ${lock}: FOR UPDATE or nothing.
-- Parameters: slave, number at most, and those of ${ids} and ${statuses}.
-- Result: one row a reject. The limit is in an inner query, since Oracle allows none with FOR UPDATE.
-- Privileges: SELECT, UPDATE on REJECTS.
-- Oldest version: Oracle 12.2.
SELECT id, repl_key, "schema", tablename, action, content, oldcontent, held, reason, rejected_at, key_columns, "keys",
       newer, status, "force", asked_by, asked_at, settled_by, settled_at, answer
FROM ${schema}.${prefix}rejects
WHERE id IN (SELECT o.id FROM (SELECT id FROM ${schema}.${prefix}rejects
                               WHERE slave = %(slave)s AND ${statuses} AND ${ids}
                               ORDER BY repl_key, id) o
             WHERE ROWNUM <= %(number)s)
ORDER BY repl_key, id
${lock}
