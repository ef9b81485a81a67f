-- The condition under which a row of ITEMS belongs to a window; a part of other statements.
-- Called by: sluice.vendors.postgres.source.reader (Window), as ${window} in queue_items.sql, queue_survey.sql,
--   queue_fill.sql.
-- Placeholders: ${floor}, ${ceiling} bounds of REPL_KEY (above, up to); ${from}, ${to} texts of pg_snapshot;
--   ${selection} further conditions or true. A key is drawn before its transaction commits. The two snapshots decide
--   what belongs to the window; the bounds only shorten the scan.
-- Result: a boolean.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
repl_key > ${floor} AND repl_key <= ${ceiling}
AND pg_visible_in_snapshot(trans_key, ${to}::pg_snapshot)
AND NOT pg_visible_in_snapshot(trans_key, ${from}::pg_snapshot)
AND (${selection})
