-- Whether values of a table's rows are yet to be queued: a change of its definition rewrote them, or may have, and its
-- writers did not let the comparison of definitions hold them off so far. If the table was dropped after that, they never will.
-- Called by: the apply, when a change of the table does not fit the slave's row.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: schema, table; floor (REPL_KEY) and snapshot (text of pg_snapshot) of what the slave has.
-- Result: a boolean.
-- Privileges: SELECT on CAPTURES and ITEMS.
-- Oldest version: PostgreSQL 14.
SELECT EXISTS (
    SELECT FROM ${schema}.${prefix}captures h
    WHERE h.schemaname = %(schema)s AND h.tablename = %(table)s AND h.mode <> 'dropped'
      AND (h.rewritten OR h.signature <> ${schema}.${prefix}signature(h.relid)))
  OR EXISTS (
    SELECT FROM ${schema}.${prefix}items i
    WHERE i.repl_key > %(floor)s AND i.db_action = 'DROP' AND i.db_schema = %(schema)s AND i.tablename = %(table)s
      AND NOT pg_visible_in_snapshot(i.trans_key, %(snapshot)s::pg_snapshot))
