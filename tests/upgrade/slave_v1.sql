-- What Sluice made on a slave when the resources of masters had version 1. A record: never edited.
CREATE TABLE IF NOT EXISTS public.demo_checkpoint (
    slave         text PRIMARY KEY,
    state         text NOT NULL,
    message       text NOT NULL DEFAULT '',
    position      text,
    position_time timestamptz,
    epoch         bigint NOT NULL DEFAULT 0,
    target        text,
    slice_key     bigint,
    safemode_exit text,
    changes       bigint NOT NULL DEFAULT 0,
    update_id     text,
    closed        text,
    tables        text,
    updated_at    timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 10);
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute
                   WHERE attrelid = $name$public.demo_checkpoint$name$::regclass AND attname = 'closed') THEN
        ALTER TABLE public.demo_checkpoint ADD COLUMN closed text;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute
                   WHERE attrelid = $name$public.demo_checkpoint$name$::regclass AND attname = 'tables') THEN
        ALTER TABLE public.demo_checkpoint ADD COLUMN tables text;
    END IF;
END $$;
COMMENT ON TABLE public.demo_checkpoint IS 'Sluice: what this slave has durably applied, one row a slave';
COMMENT ON COLUMN public.demo_checkpoint.position IS 'master transactions applied (JSON around a pg_snapshot)';
COMMENT ON COLUMN public.demo_checkpoint.position_time IS 'the slave is current as of this time of the master''s clock';
COMMENT ON COLUMN public.demo_checkpoint.epoch IS 'raised by each apply that starts; one with a lower epoch can no longer write';
COMMENT ON COLUMN public.demo_checkpoint.target IS 'the window under way when it is applied in slices: the slave is CATCHING_UP';
COMMENT ON COLUMN public.demo_checkpoint.slice_key IS 'the last REPL_KEY of that window which is applied';
COMMENT ON COLUMN public.demo_checkpoint.update_id IS 'the initial update under way, or the last one';
COMMENT ON COLUMN public.demo_checkpoint.closed IS 'an admin''s closure of the gate (JSON): nothing is applied; NULL: none';
COMMENT ON COLUMN public.demo_checkpoint.tables IS 'tables that are not ready (JSON): their changes are left out until they are loaded; NULL: none';
COMMENT ON COLUMN public.demo_checkpoint.safemode_exit IS 'safe mode stays on until this position is passed';

CREATE TABLE IF NOT EXISTS public.demo_blocks (
    slave      text NOT NULL,
    schema     text NOT NULL,
    tablename  text NOT NULL,
    block      integer NOT NULL,
    lo         text,
    hi         text,
    state      text NOT NULL CHECK (state IN ('planned', 'begun', 'exported', 'stored')),
    marker     text,
    planned_at timestamptz NOT NULL DEFAULT now(),
    begun_at   timestamptz,
    stored_at  timestamptz,
    rows       bigint,
    bytes      bigint,
    loader     text,
    file       text,
    sha256     text,
    made       boolean NOT NULL DEFAULT false,
    snapshot   text,
    tries      integer NOT NULL DEFAULT 0,
    retry_at   timestamptz,
    PRIMARY KEY (slave, schema, tablename, block)
);
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute
                   WHERE attrelid = $name$public.demo_blocks$name$::regclass AND attname = 'sha256') THEN
        ALTER TABLE public.demo_blocks
            ADD COLUMN file text, ADD COLUMN sha256 text,
            DROP CONSTRAINT IF EXISTS demo_blocks_state_check,
            ADD CONSTRAINT demo_blocks_state_check CHECK (state IN ('planned', 'begun', 'exported', 'stored'));
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute
                   WHERE attrelid = $name$public.demo_blocks$name$::regclass AND attname = 'retry_at') THEN
        ALTER TABLE public.demo_blocks
            ADD COLUMN made boolean NOT NULL DEFAULT false, ADD COLUMN snapshot text,
            ADD COLUMN tries integer NOT NULL DEFAULT 0, ADD COLUMN retry_at timestamptz;
    END IF;
END $$;
COMMENT ON TABLE public.demo_blocks IS 'Sluice: the restart table of loads, one row a block';
COMMENT ON COLUMN public.demo_blocks.lo IS 'first key (JSON array of texts), inclusive; NULL: open';
COMMENT ON COLUMN public.demo_blocks.hi IS 'end of the keys, exclusive; NULL: open';
COMMENT ON COLUMN public.demo_blocks.marker IS 'the master''s position at which the block was read';
COMMENT ON COLUMN public.demo_blocks.file IS 'the file that holds the rows, when they travel as files';
COMMENT ON COLUMN public.demo_blocks.sha256 IS 'of that file';
COMMENT ON COLUMN public.demo_blocks.made IS 'the table was made by the initial update under way';
COMMENT ON COLUMN public.demo_blocks.snapshot IS 'the exported snapshot of the master in which it is read (read: snapshot)';
COMMENT ON COLUMN public.demo_blocks.tries IS 'how often its reading gave way to the application (read: locked)';
COMMENT ON COLUMN public.demo_blocks.retry_at IS 'when it is tried again after that';

CREATE TABLE IF NOT EXISTS public.demo_throttle (
    slave            text PRIMARY KEY,
    paused           boolean NOT NULL,
    reason           text NOT NULL,
    rows_per_second  float8,
    bytes_per_second float8,
    loaders          integer NOT NULL,
    since            timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE public.demo_throttle IS 'Sluice: what the load of a slave is held to just now';
COMMENT ON COLUMN public.demo_throttle.paused IS 'no block is begun';
COMMENT ON COLUMN public.demo_throttle.since IS 'from when on the rate is in force';

CREATE TABLE IF NOT EXISTS public.demo_rejects (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slave       text NOT NULL,
    repl_key    bigint,
    schema      text NOT NULL,
    tablename   text NOT NULL,
    action      text NOT NULL,
    content     text,
    oldcontent  text,
    held        text,
    reason      text NOT NULL,
    rejected_at timestamptz NOT NULL DEFAULT now(),
    key_columns text[] NOT NULL DEFAULT '{}',
    keys        text[] NOT NULL DEFAULT '{}',
    newer       bigint,
    status      text NOT NULL DEFAULT 'set aside' CHECK (status IN ('set aside', 'asked', 'applied', 'dropped')),
    force       boolean NOT NULL DEFAULT false,
    asked_by    text,
    asked_at    timestamptz,
    settled_by  text,
    settled_at  timestamptz,
    answer      text
);
COMMENT ON TABLE public.demo_rejects IS 'Sluice: changes set aside by the policy on_conflict: reject';
COMMENT ON COLUMN public.demo_rejects.content IS 'the row after the change on the master';
COMMENT ON COLUMN public.demo_rejects.oldcontent IS 'the row before it: of an UPDATE the key and what changed';
COMMENT ON COLUMN public.demo_rejects.held IS 'the row of that key on the slave; NULL: none';
COMMENT ON COLUMN public.demo_rejects.keys IS 'texts of the keys it touches, as in GUID';
COMMENT ON COLUMN public.demo_rejects.newer IS 'the last change of the same row that was applied since';
COMMENT ON COLUMN public.demo_rejects.answer IS 'why it was not applied when somebody asked for it';
