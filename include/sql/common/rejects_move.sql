-- Changes the status of rejects.
-- Placeholders: ${prefix}, ${schema}, ${clock}; ${ids} which. Parameters: slave, status, person, force, answer, and those of
-- ${ids}. Privileges: UPDATE on REJECTS.
UPDATE ${schema}.${prefix}rejects
SET "force" = CASE WHEN %(status)s = 'asked' THEN %(force)s ELSE "force" END,
    asked_by = CASE WHEN %(status)s = 'asked' THEN %(person)s ELSE asked_by END,
    asked_at = CASE WHEN %(status)s = 'asked' THEN ${clock} ELSE asked_at END,
    settled_by = CASE WHEN %(status)s IN ('applied', 'dropped') THEN %(person)s END,
    settled_at = CASE WHEN %(status)s IN ('applied', 'dropped') THEN ${clock} END,
    answer = %(answer)s, status = %(status)s
WHERE slave = %(slave)s AND ${ids}
