-- Writes a row without changing it. The caller commits with COMMIT WRITE IMMEDIATE WAIT; then everything that was visible
-- before is on disk.
-- Called by: sluice.vendors.oracle.source.queue, before the changes of a position become visible on a slave.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: none.
-- Result: none.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
UPDATE ${prefix}INFO SET VALUE = VALUE WHERE NAME = 'version'
