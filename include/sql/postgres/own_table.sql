-- Whether a table of Sluice's exists and belongs to this account: reading a view or a table of somebody else may run
-- his code.
-- Called by: readers of tables that may be absent.
-- Parameter: relation text: quoted name with the schema.
-- Result, at most one row: quoted name of the owner, whether it is a plain table of this account.
-- Privileges: USAGE on the schema.
-- Oldest version: PostgreSQL 14.
SELECT format('%%I', pg_catalog.pg_get_userbyid(c.relowner)),
       c.relkind = 'r' AND pg_catalog.pg_get_userbyid(c.relowner) = current_user
FROM pg_catalog.pg_class c
WHERE c.oid = to_regclass(%(relation)s)
