-- DbResources of one prefix on a PostgreSQL master, step 4: queries to all databases at one position.
-- Called by: sluice.capture, and by hand, as resources_v1.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: those of the account that installed step 1.
-- Oldest version: PostgreSQL 14.

-- POSITION: the position at which each slave answers. SECONDS: the time limit of the query.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}statements (
    id bigint NOT NULL DEFAULT nextval($s$ ${schema}.${prefix}seq$s$::regclass),
    statement text NOT NULL,
    slaves text[] NOT NULL,
    seconds double precision NOT NULL,
    shown integer NOT NULL,
    position text NOT NULL,
    asked_by text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ${prefix}statements_pkey PRIMARY KEY (id)
);

-- PLACE: a slave; empty: the master. ANSWER: JSON.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}answers (
    id bigint NOT NULL,
    place text NOT NULL,
    answer text NOT NULL,
    answered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ${prefix}answers_pkey PRIMARY KEY (id, place)
);
