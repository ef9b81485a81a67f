-- A change of no meaning, which is then committed with COMMIT WRITE IMMEDIATE WAIT: what was visible before is on disk after.
-- Called by: sluice.vendors.oracle.source.positions.secure, before a slave shows what a position saw. Binds: none.
-- Placeholders: ${prefix} as in resources_v1.sql. Result: none.
-- Privileges: owner of the tables. Oldest version: Oracle 12.2.
UPDATE ${prefix}INFO SET VALUE = VALUE WHERE NAME = 'version'
