-- Stores or clears (NULL) the closure of the gate by an admin, so that an emptied Redis does not open the gate. Waits
-- for a running transaction of the apply.
-- Called by: an admin.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, closed (JSON).
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET closed = %(closed)s, updated_at = ${clock} WHERE slave = %(slave)s
