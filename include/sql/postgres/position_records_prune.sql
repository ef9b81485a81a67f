-- Deletes all but the last 500 records of a reader's sessions (position_record.sql). A slave that is restored from a backup
-- of before them needs an initial update.
-- Called by: sluice.vendors.postgres.source.position, once a session.
-- Placeholders: ${prefix}, ${schema}.
-- Result: none. Privileges: SELECT and DELETE on INFO. Oldest version: PostgreSQL 14.
DELETE FROM ${schema}.${prefix}info i USING (
    SELECT o.name FROM ${schema}.${prefix}info o
    WHERE starts_with(o.name, 'run ')
      AND substr(o.value, length(concat_ws(' ', split_part(o.value, ' ', 1), split_part(o.value, ' ', 2), split_part(o.value, ' ', 3))) + 2)
          = pg_catalog.current_setting('application_name')
    ORDER BY split_part(o.value, ' ', 1)::bigint DESC OFFSET 500
) old
WHERE i.name = old.name
