-- Makes THROTTLE where it is absent, and forgets what a dead load job of the slave was held to.
-- Called by: a load job that starts, before its workers. Placeholders: ${prefix}, ${schema}. Parameter: slave.
-- Result: none. Privileges: CREATE on the schema where the table is absent. Oldest version: PostgreSQL 13.
DO $throttle$
BEGIN
    IF to_regclass($name$${schema}.${prefix}throttle$name$) IS NULL THEN
        -- IF NOT EXISTS still races with another session that creates the same table.
        PERFORM pg_catalog.pg_advisory_xact_lock(hashtext('sluice slave resources'));
        CREATE TABLE IF NOT EXISTS ${schema}.${prefix}throttle (
            slave            text PRIMARY KEY,
            paused           boolean NOT NULL,
            reason           text NOT NULL,
            rows_per_second  float8,
            bytes_per_second float8,
            loaders          integer NOT NULL,
            since            timestamptz NOT NULL DEFAULT clock_timestamp(),
            updated_at       timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        COMMENT ON TABLE ${schema}.${prefix}throttle IS 'Sluice: what the load of a slave is held to just now';
        COMMENT ON COLUMN ${schema}.${prefix}throttle.paused IS 'no block is begun';
        COMMENT ON COLUMN ${schema}.${prefix}throttle.since IS 'from when on the rate is in force';
    END IF;
END $throttle$
