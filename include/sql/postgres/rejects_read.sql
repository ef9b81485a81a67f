-- Changes that are set aside, oldest first.
-- Called by: the apply (those still open, and the one it carries out), the DAG rejects (to show them).
-- Parameters: slave, statuses text[], ids bigint[] (NULL: all), number at most. ${lock}: FOR UPDATE or nothing.
-- Placeholders: ${prefix}, ${schema}. Privileges: SELECT, UPDATE on REJECTS. Oldest version: PostgreSQL 13.
SELECT id, repl_key, schema, tablename, action, content, oldcontent, held, reason, rejected_at, key_columns, keys, newer,
       status, force, asked_by, asked_at, settled_by, settled_at, answer
FROM ${schema}.${prefix}rejects
WHERE slave = %(slave)s AND status = ANY (%(statuses)s) AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s))
ORDER BY repl_key, id
LIMIT %(number)s
${lock}
