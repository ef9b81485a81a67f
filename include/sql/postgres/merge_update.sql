-- Updates rows to the values of the source, which for a moved row include its key.
-- Called by: sluice.vendors.postgres.target.merge. Expects as many rows as the source has.
-- Placeholders: ${target}, ${source}, ${match} as in merge_delete.sql; ${assignments} column = s.cN, …
-- Privileges: SELECT, UPDATE on the table.
-- Oldest version: PostgreSQL 13.
UPDATE ${target} t SET ${assignments} FROM ${source} s WHERE ${match}
