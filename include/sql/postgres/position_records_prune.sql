-- Deletes records (position_record.sql) of more than 30 days ago, except the last 500 of each reader. A slave that is restored
-- from a backup of before them needs an initial update.
-- Called by: sluice.vendors.postgres.source.queue, once a session.
-- Placeholders: ${prefix}, ${schema}.
-- Result: none.
-- Privileges: SELECT and DELETE on INFO. Oldest version: PostgreSQL 14.
DELETE FROM ${schema}.${prefix}info i USING (
    SELECT o.name, split_part(o.value, ' ', 4)::bigint AS made,
           row_number() OVER (PARTITION BY regexp_replace(o.value, '^(\S+ ){4}', '') ORDER BY split_part(o.value, ' ', 4)::bigint DESC)
               AS place
    FROM ${schema}.${prefix}info o WHERE starts_with(o.name, 'run ')
) old
WHERE i.name = old.name AND old.place > 500 AND old.made < extract(epoch FROM clock_timestamp()) - 30 * 86400
