-- Changes that are set aside take another status, those of them whose status allows it.
-- Called by: the apply when it answers, the DAG rejects. By hand, while an apply runs:
--   UPDATE demo_rejects SET status = 'asked', asked_by = 'anna', asked_at = now() WHERE id = 7 AND status = 'set aside'
-- Parameters: slave, ids, statuses (from which), status, person, force, answer. Result: the ids.
-- Placeholders: ${prefix}, ${schema}. Privileges: SELECT, UPDATE on REJECTS. Oldest version: PostgreSQL 13.
UPDATE ${schema}.${prefix}rejects
SET status = %(status)s,
    force = CASE WHEN %(status)s = 'asked' THEN %(force)s ELSE force END,
    asked_by = CASE WHEN %(status)s = 'asked' THEN %(person)s ELSE asked_by END,
    asked_at = CASE WHEN %(status)s = 'asked' THEN clock_timestamp() ELSE asked_at END,
    settled_by = CASE WHEN %(status)s IN ('applied', 'dropped') THEN %(person)s END,
    settled_at = CASE WHEN %(status)s IN ('applied', 'dropped') THEN clock_timestamp() END,
    answer = %(answer)s
WHERE slave = %(slave)s AND id = ANY (%(ids)s) AND status = ANY (%(statuses)s)
RETURNING id
