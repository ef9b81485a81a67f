-- An admin's closure of the gate, kept where emptying Redis does not reach it; NULL: opened. Waits for a transaction of
-- the apply that is under way; whoever locks the row afterwards sees it. Called by: an admin.
-- Placeholders: ${prefix}, ${schema}, ${clock}. Parameters: slave, closed (JSON). Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET closed = %(closed)s, updated_at = ${clock} WHERE slave = %(slave)s
