-- Decides whose changes are captured: those of the database's own sessions, and those of other replications that are
-- passed on.
-- Called by: capture_code.sql, partitions.sql, capture.sql and structure.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.

-- The values of the setting sluice.origin with which a session is captured: none, and the prefixes whose changes are
-- passed on (configuration: master.cascade; stored in INFO).
CREATE OR REPLACE FUNCTION ${schema}.${prefix}origins() RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT ''::text || coalesce((SELECT string_to_array(i.value, ',') FROM ${schema}.${prefix}info i WHERE i.name = 'cascade'), '{}'));
END
$sluice$;

-- The origin that this session sets, '' without one. Only a member of the account that installed this may set one:
-- otherwise anybody could hide his changes.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}origin() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT CASE WHEN coalesce(current_setting('sluice.origin', true), '') <> ''
        AND pg_has_role(session_user, ${schema}.${prefix}account(), 'MEMBER') THEN current_setting('sluice.origin') ELSE '' END);
END
$sluice$;

-- The code for "session_user is a member of that account".
CREATE OR REPLACE FUNCTION ${schema}.${prefix}member_code() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format($s$pg_catalog.pg_has_role(session_user, %s::pg_catalog.oid, 'MEMBER')$s$, ${schema}.${prefix}account())
$sluice$;

-- Whether the session applies changes of another replication that are not passed on, so that they are not captured.
-- Trigger functions call it: a WHEN clause would be parsed for every statement.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}replayed_code() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format($s$(coalesce(pg_catalog.current_setting('sluice.origin', true), '') OPERATOR(pg_catalog.<>) %s AND %s)$s$,
        CASE WHEN o = ARRAY[''] THEN quote_literal('') ELSE format('ALL (%L::pg_catalog.text[])', o) END, ${schema}.${prefix}member_code())
    FROM ${schema}.${prefix}origins() o
$sluice$;

-- The code for DBID: the database itself, or the prefix whose change is passed on.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}dbid_code() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN ${schema}.${prefix}origins() = ARRAY[''] THEN quote_literal(current_database())
        ELSE format($s$CASE WHEN coalesce(pg_catalog.current_setting('sluice.origin', true), '') OPERATOR(pg_catalog.<>) '' AND %s
            THEN pg_catalog.current_setting('sluice.origin') ELSE %L END$s$, ${schema}.${prefix}member_code(), current_database()) END
$sluice$;

-- The code that creates a trigger. If changes are passed on, it also fires in the sessions of an apply, in which other
-- triggers do not fire; that needs ownership of the table. p_each: the clause from REFERENCING or FOR EACH on.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}trigger_code(
    p_trigger text, p_event text, p_relation text, p_each text, p_function text
) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format('CREATE OR REPLACE TRIGGER %I %s ON %s %s EXECUTE FUNCTION %s()', p_trigger, p_event, p_relation, p_each, p_function)
        || CASE WHEN ${schema}.${prefix}origins() = ARRAY[''] THEN ''
           ELSE format('; ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', p_relation, p_trigger) END
$sluice$;
