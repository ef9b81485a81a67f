-- Changes that were set aside and settled long ago are removed. Called by: the DAG housekeeping.
-- Parameters: slave, statuses (settled ones), days. Result: none.
-- Placeholders: ${prefix}, ${schema}. Privileges: DELETE on REJECTS. Oldest version: PostgreSQL 13.
DELETE FROM ${schema}.${prefix}rejects
WHERE slave = %(slave)s AND status = ANY (%(statuses)s)
  AND settled_at < clock_timestamp() - %(days)s * interval '1 day'
