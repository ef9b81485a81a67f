-- DbResources of one prefix on a PostgreSQL master, step 6: REPL_KEYs that are places in the write-ahead log.
-- Called by: sluice.capture, and by hand, as resources_v1.sql. An older installation gets this step and the next one
--   each in a transaction of its own, before everything else: positions and keys that are drawn meanwhile stay right.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: those of the account that installed step 1; EXECUTE on pg_logical_emit_message and pg_control_system.
-- Oldest version: PostgreSQL 14.
--
-- A sequence would change what lastval() returns in the session of the application. A message in the log changes nothing
-- there. The place behind it is unique and rises over all sessions, and its contents reserve as many places as they have
-- bytes. docs/capture.md explains what this rests on.

-- Where keys begin: a number of the cluster's identity in the lower 54 bits, and above it how often the database was
-- copied into another cluster, whose log begins at a lower place. Nobody draws from it: setval() leaves lastval() alone.
CREATE SEQUENCE IF NOT EXISTS ${schema}.${prefix}key_base AS bigint MINVALUE 0 NO CYCLE CACHE 1;

-- What is added to a place in the log of this cluster. All sessions of a cluster get the same number, without a lock.
-- Declared IMMUTABLE, because it is in a session: PostgreSQL calls it once and stores the result with each plan.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}key_base() RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    -- 18 PB of log.
    room CONSTANT bigint := 1::bigint << 54;
    cluster bigint := (SELECT c.system_identifier & (room - 1) FROM pg_control_system() c);
    mark bigint := pg_sequence_last_value($s$ ${schema}.${prefix}key_base$s$::regclass);
    used bigint;
BEGIN
    IF mark & (room - 1) = cluster THEN
        RETURN mark & ~(room - 1);
    ELSIF mark IS NULL THEN
        -- Keys of an older installation came from SEQ. They are lower, except after a move to another cluster.
        used := greatest((SELECT max(i.repl_key) FROM ${schema}.${prefix}items i), (SELECT s.last_value FROM ${schema}.${prefix}seq s));
        mark := cluster | CASE WHEN used < (pg_current_wal_insert_lsn() - '0/0')::bigint / 4 THEN 0 ELSE room END;
    ELSE
        mark := cluster | ((mark & ~(room - 1)) + room);
    END IF;
    IF current_setting('transaction_read_only') = 'off' THEN
        PERFORM setval($s$ ${schema}.${prefix}key_base$s$::regclass, mark);
    END IF;
    RETURN mark & ~(room - 1);
END
$sluice$;

-- Reserves keys for p_count rows: those that follow the result. The functions below are inlined where they are called.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}draw_keys(p_count bigint) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
RETURN ${schema}.${prefix}key_base() - p_count
    + (pg_logical_emit_message(false, 'sluice'::text, repeat('-', p_count::integer)) - '0/0'::pg_lsn)::bigint;

-- Draws one key.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}next_key() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
RETURN ${schema}.${prefix}key_base() + (pg_logical_emit_message(false, 'sluice'::text, ''::text) - '0/0'::pg_lsn)::bigint;

-- A key that is lower than all that are drawn from now on, and not lower than any drawn before.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}last_key() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
RETURN ${schema}.${prefix}key_base() + (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint;

SELECT ${schema}.${prefix}key_base();

-- For an older installation, until keys are drawn from the log: LOW from SEQ, HIGH from the log. Both are right for
-- either way of drawing, also if the way changes between the two.
DO $sluice$
BEGIN
    IF pg_catalog.to_regprocedure($s$ ${schema}.${prefix}position()$s$) IS NOT NULL AND EXISTS (
        SELECT FROM pg_catalog.pg_attrdef d WHERE d.adrelid = $s$ ${schema}.${prefix}items$s$::regclass
        AND pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~ '^nextval') THEN
        CREATE OR REPLACE FUNCTION ${schema}.${prefix}position(
            OUT low bigint, OUT next_xid bigint, OUT snapshot pg_snapshot, OUT high bigint, OUT "time" timestamptz
        )
        LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        AS $position$
        BEGIN
            "time" := clock_timestamp();
            SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END INTO low FROM ${schema}.${prefix}seq s;
            snapshot := pg_current_snapshot();
            high := ${schema}.${prefix}last_key();
        END
        $position$;
    END IF;
END
$sluice$;
