-- Writes the tables that are not ready, whose changes are left out. The caller holds the row's lock.
-- Called by: the apply, in the transaction that carries the data; the initial update. The caller holds the row's lock.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, tables (JSON [[schema, name, state], ...]; NULL: all are ready).
-- Privileges: UPDATE.
UPDATE ${schema}.${prefix}checkpoint SET tables = %(tables)s WHERE slave = %(slave)s
