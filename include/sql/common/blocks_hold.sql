-- Marks all planned blocks of a slave as begun by one loader, while they are read together with another slave's.
-- Called by: the initial update of several slaves, in the transaction that moves to TRANSITION.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, loader.
-- Result: none.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks SET state = 'begun', loader = %(loader)s, begun_at = ${clock}
WHERE slave = %(slave)s AND state = 'planned'
