-- Deletes the rows whose keys are in the source.
-- Called by: sluice.vendors.postgres.target.merge. Expects as many rows as the source has.
-- Placeholders: ${target} (with ONLY unless partitioned), ${source} relation or sub-select s, ${match} the keys'
--   equality, with the old image's where it is compared.
-- Privileges: SELECT, DELETE on the table.
-- Oldest version: PostgreSQL 13.
DELETE FROM ${target} t USING ${source} s WHERE ${match}
