-- Plans the blocks of a partial load again, with the marker and snapshot of a new snapshot; blocks that have caught up
-- stay.
-- Called by: a load job that begins, in a transaction that holds the checkpoint.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; marker, snapshot.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'planned', marker = %(marker)s, snapshot = %(snapshot)s, begun_at = NULL, stored_at = NULL, "rows" = NULL,
    bytes = NULL, loader = NULL, "file" = NULL, sha256 = NULL, tries = 0, retry_at = NULL
WHERE slave = %(slave)s AND NOT (state = 'stored' AND marker IS NULL)
