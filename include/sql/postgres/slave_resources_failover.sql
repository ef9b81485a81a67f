-- The table that a slave keeps for a failover: the master's definitions, and the phase of a failover.
-- Called by: sluice.failover and housekeeping, before they write to it. Idempotent.
-- Placeholders: ${prefix} e.g. demo_, ${schema} quoted schema.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 13.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}failover (
    slave       text PRIMARY KEY,
    sheet       text,
    sheet_at    timestamptz,
    failover_id text,
    action      text,
    phase       text,
    reverse     boolean NOT NULL DEFAULT false,
    started_by  text,
    begun_at    timestamptz,
    last        text,
    start       text,
    verified    text,
    made        jsonb NOT NULL DEFAULT '[]',
    updated_at  timestamptz NOT NULL DEFAULT now(),
    guarded_at  timestamptz,
    switches    jsonb NOT NULL DEFAULT '[]',
    compared    text
);
-- Of an earlier release.
ALTER TABLE ${schema}.${prefix}failover ADD COLUMN IF NOT EXISTS guarded_at timestamptz,
    ADD COLUMN IF NOT EXISTS switches jsonb NOT NULL DEFAULT '[]', ADD COLUMN IF NOT EXISTS compared text;
COMMENT ON TABLE ${schema}.${prefix}failover IS 'Sluice: failovers of this slave to a master, one row a slave';
COMMENT ON COLUMN ${schema}.${prefix}failover.sheet IS 'the master''s definitions that rows do not bring (JSON)';
COMMENT ON COLUMN ${schema}.${prefix}failover.failover_id IS 'the failover under way, or the last one';
COMMENT ON COLUMN ${schema}.${prefix}failover.last IS 'the last position of the former master that is applied (JSON)';
COMMENT ON COLUMN ${schema}.${prefix}failover.start IS 'the position at which the capture of the new master began (JSON)';
COMMENT ON COLUMN ${schema}.${prefix}failover.compared IS 'the position up to which the slave was compared (JSON)';
COMMENT ON COLUMN ${schema}.${prefix}failover.made IS 'what was made on the slave, each with the statements that take it back';
COMMENT ON COLUMN ${schema}.${prefix}failover.guarded_at IS 'since when the master refuses writes for it';
COMMENT ON COLUMN ${schema}.${prefix}failover.switches IS 'who was the master when, as far as this database knows';
