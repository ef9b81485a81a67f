-- Whether values of a table's rows are yet to be queued: a change of its definition rewrote them, or may have, and its
-- writers did not let the comparison of definitions hold them off so far.
-- Called by: the apply, when a change of the table does not fit the slave's row.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: schema, table.
-- Result: a boolean.
-- Privileges: SELECT on CAPTURES.
-- Oldest version: PostgreSQL 14.
SELECT EXISTS (
    SELECT FROM ${schema}.${prefix}captures h
    WHERE h.schemaname = %(schema)s AND h.tablename = %(table)s AND h.mode <> 'dropped'
      AND (h.rewritten OR h.signature <> ${schema}.${prefix}signature(h.relid)))
