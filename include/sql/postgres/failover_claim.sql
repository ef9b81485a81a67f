-- Claims the master for a failover: no other one can begin.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources.
-- Parameter: claim (JSON: id, slave, phase).
-- Result: none.
-- Privileges: INSERT on INFO.
-- Oldest version: PostgreSQL 14.
INSERT INTO ${schema}.${prefix}info (name, value) VALUES ('failover', %(claim)s) ON CONFLICT (name) DO NOTHING
