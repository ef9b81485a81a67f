-- Stores the master's definitions on the slave, for a failover without the master, and who was the master when.
-- Called by: sluice.failover and housekeeping.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; sheet (JSON), time (NULL: unchanged); switches: changes of the master (a JSON array).
-- Privileges: INSERT, UPDATE.
-- Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}failover AS f (slave, sheet, sheet_at, switches)
VALUES (%(slave)s, %(sheet)s, %(time)s::timestamptz, %(switches)s)
ON CONFLICT (slave) DO UPDATE SET sheet = coalesce(excluded.sheet, f.sheet), sheet_at = coalesce(excluded.sheet_at, f.sheet_at),
    switches = coalesce((SELECT pg_catalog.jsonb_agg(DISTINCT one.value)
                         FROM pg_catalog.jsonb_array_elements(f.switches || excluded.switches) AS one), '[]')
