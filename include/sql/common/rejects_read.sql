-- Reads rejects, oldest first.
-- Called by: the apply (those still open, and the one it carries out), the DAG rejects (to show them).
-- Placeholders: ${prefix}, ${schema}; ${ids}, ${statuses} which; ${lock}: FOR UPDATE or nothing.
-- Parameters: slave, number at most, and those of ${ids} and ${statuses}.
-- Privileges: SELECT, UPDATE on REJECTS.
SELECT id, repl_key, "schema", tablename, action, content, oldcontent, held, reason, rejected_at, key_columns, "keys",
       newer, status, "force", asked_by, asked_at, settled_by, settled_at, answer
FROM ${schema}.${prefix}rejects
WHERE slave = %(slave)s AND ${statuses} AND ${ids}
ORDER BY repl_key, id
LIMIT %(number)s
${lock}
