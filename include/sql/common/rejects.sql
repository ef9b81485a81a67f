-- REJECTS. Each statement is a section with its name.

-- name: rejects_emptied
-- Marks the rejects of a table that was emptied as outdated.
-- Called by: the apply, in its transaction.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, table, repl_key.
-- Privileges: SELECT, UPDATE on REJECTS.
UPDATE ${schema}.${prefix}rejects
SET newer = GREATEST(COALESCE(newer, 0), %(repl_key)s)
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(table)s
  AND status IN ('set aside', 'asked') AND repl_key < %(repl_key)s

-- name: rejects_forget
-- Deletes rejects that were settled long ago.
-- Called by: the DAG housekeeping.
-- Placeholders: ${prefix}, ${schema}; ${settled} which statuses.
-- Parameters: slave, before, and those of ${settled}.
-- Result: none.
-- Privileges: DELETE on REJECTS.
DELETE FROM ${schema}.${prefix}rejects WHERE slave = %(slave)s AND settled_at < %(before)s AND ${settled}

-- name: rejects_movable
-- Locks rejects whose status may be changed.
-- Called by: the apply when it answers, the DAG rejects.
-- Placeholders: ${prefix}, ${schema}; ${ids}, ${statuses} which.
-- Parameters: slave, and those of ${ids} and ${statuses}.
-- Result: the ids.
-- Privileges: SELECT, UPDATE on REJECTS.
SELECT id FROM ${schema}.${prefix}rejects WHERE slave = %(slave)s AND ${ids} AND ${statuses} FOR UPDATE

-- name: rejects_move
-- Changes the status of rejects.
-- Placeholders: ${prefix}, ${schema}, ${clock}; ${ids} which. Parameters: slave, status, person, force, answer, and those
--   of ${ids}. Privileges: UPDATE on REJECTS.
UPDATE ${schema}.${prefix}rejects
SET "force" = CASE WHEN %(status)s = 'asked' THEN %(force)s ELSE "force" END,
    asked_by = CASE WHEN %(status)s = 'asked' THEN %(person)s ELSE asked_by END,
    asked_at = CASE WHEN %(status)s = 'asked' THEN ${clock} ELSE asked_at END,
    settled_by = CASE WHEN %(status)s IN ('applied', 'dropped') THEN %(person)s END,
    settled_at = CASE WHEN %(status)s IN ('applied', 'dropped') THEN ${clock} END,
    answer = %(answer)s, status = %(status)s
WHERE slave = %(slave)s AND ${ids}

-- name: rejects_newer
-- Marks the reject of a row as outdated, because a newer change of this row was applied.
-- Called by: the apply, in its transaction.
-- Placeholders: ${prefix}, ${schema}; ${among} a condition on the key of the change.
-- Parameters: slave, table_schema, table, key, repl_key.
-- Privileges: SELECT, UPDATE on REJECTS.
UPDATE ${schema}.${prefix}rejects
SET newer = GREATEST(COALESCE(newer, 0), %(repl_key)s)
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(table)s
  AND status IN ('set aside', 'asked') AND ${among} AND repl_key < %(repl_key)s

-- name: rejects_put
-- Inserts a reject (on_conflict: reject), or a conflict that a rule decided (conflict_rules); once, even if the change is
--   applied again.
-- Called by: the apply, in its transaction.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, repl_key, table_schema, table, action, content, oldcontent, held, reason, key_columns, keys, newer,
--   status, settled_by, answer.
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
      AND r."schema" = %(table_schema)s AND r.tablename = %(table)s AND r."keys" = %(keys)s)

-- name: rejects_read
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

-- name: rejects_rename
-- Gives a reject the new name of its table.
-- Called by: the apply, in its transaction.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, table_schema, table, reason, number.
-- Privileges: SELECT, UPDATE on REJECTS.
UPDATE ${schema}.${prefix}rejects
SET "schema" = %(table_schema)s, tablename = %(table)s, reason = %(reason)s
WHERE slave = %(slave)s AND id = %(number)s
