-- Stores the master's definitions on the slave, for a failover without the master.
-- Called by: sluice.failover and housekeeping.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, sheet (JSON), time.
-- Privileges: INSERT, UPDATE.
-- Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}failover AS f (slave, sheet, sheet_at) VALUES (%(slave)s, %(sheet)s, %(time)s::timestamptz)
ON CONFLICT (slave) DO UPDATE SET sheet = excluded.sheet, sheet_at = excluded.sheet_at
