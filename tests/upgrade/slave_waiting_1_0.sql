-- What 1.0.0 left on a slave that waits for the files in carried_1_0. A record: never edited.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE public.account (
    id integer NOT NULL,
    owner text,
    balance numeric
);

CREATE TABLE public.demo_blocks (
    slave text NOT NULL,
    schema text NOT NULL,
    tablename text NOT NULL,
    block integer NOT NULL,
    lo text,
    hi text,
    state text NOT NULL,
    marker text,
    planned_at timestamp with time zone DEFAULT now() NOT NULL,
    begun_at timestamp with time zone,
    stored_at timestamp with time zone,
    rows bigint,
    bytes bigint,
    loader text,
    file text,
    sha256 text,
    made boolean DEFAULT false NOT NULL,
    snapshot text,
    tries integer DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone,
    CONSTRAINT demo_blocks_state_check CHECK ((state = ANY (ARRAY['planned'::text, 'begun'::text, 'exported'::text, 'stored'::text])))
);

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

CREATE TABLE public.demo_checkpoint (
    slave text NOT NULL,
    state text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    "position" text,
    position_time timestamp with time zone,
    epoch bigint DEFAULT 0 NOT NULL,
    target text,
    slice_key bigint,
    safemode_exit text,
    changes bigint DEFAULT 0 NOT NULL,
    update_id text,
    closed text,
    tables text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='10');

COMMENT ON TABLE public.demo_checkpoint IS 'Sluice: what this slave has durably applied, one row a slave';

COMMENT ON COLUMN public.demo_checkpoint."position" IS 'master transactions applied (JSON around a pg_snapshot)';

COMMENT ON COLUMN public.demo_checkpoint.position_time IS 'the slave is current as of this time of the master''s clock';

COMMENT ON COLUMN public.demo_checkpoint.epoch IS 'raised by each apply that starts; one with a lower epoch can no longer write';

COMMENT ON COLUMN public.demo_checkpoint.target IS 'the window under way when it is applied in slices: the slave is CATCHING_UP';

COMMENT ON COLUMN public.demo_checkpoint.slice_key IS 'the last REPL_KEY of that window which is applied';

COMMENT ON COLUMN public.demo_checkpoint.safemode_exit IS 'safe mode stays on until this position is passed';

COMMENT ON COLUMN public.demo_checkpoint.update_id IS 'the initial update under way, or the last one';

COMMENT ON COLUMN public.demo_checkpoint.closed IS 'an admin''s closure of the gate (JSON): nothing is applied; NULL: none';

COMMENT ON COLUMN public.demo_checkpoint.tables IS 'tables that are not ready (JSON): their changes are left out until they are loaded; NULL: none';

CREATE TABLE public.demo_definitions (
    slave text NOT NULL,
    kind text NOT NULL,
    schema text NOT NULL,
    tablename text NOT NULL,
    name text NOT NULL,
    definition text NOT NULL,
    making boolean DEFAULT false NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.demo_definitions IS 'Sluice: indexes, constraints and comments that this slave has from its master';

COMMENT ON COLUMN public.demo_definitions.making IS 'it was begun on the slave, and may be there in part';

CREATE TABLE public.demo_rejects (
    id bigint NOT NULL,
    slave text NOT NULL,
    repl_key bigint,
    schema text NOT NULL,
    tablename text NOT NULL,
    action text NOT NULL,
    content text,
    oldcontent text,
    held text,
    reason text NOT NULL,
    rejected_at timestamp with time zone DEFAULT now() NOT NULL,
    key_columns text[] DEFAULT '{}'::text[] NOT NULL,
    keys text[] DEFAULT '{}'::text[] NOT NULL,
    newer bigint,
    status text DEFAULT 'set aside'::text NOT NULL,
    force boolean DEFAULT false NOT NULL,
    asked_by text,
    asked_at timestamp with time zone,
    settled_by text,
    settled_at timestamp with time zone,
    answer text,
    CONSTRAINT demo_rejects_status_check CHECK ((status = ANY (ARRAY['set aside'::text, 'asked'::text, 'applied'::text, 'dropped'::text])))
);

COMMENT ON TABLE public.demo_rejects IS 'Sluice: changes set aside by the policy on_conflict: reject';

COMMENT ON COLUMN public.demo_rejects.content IS 'the row after the change on the master';

COMMENT ON COLUMN public.demo_rejects.oldcontent IS 'the row before it: of an UPDATE the key and what changed';

COMMENT ON COLUMN public.demo_rejects.held IS 'the row of that key on the slave; NULL: none';

COMMENT ON COLUMN public.demo_rejects.keys IS 'texts of the keys it touches, as in GUID';

COMMENT ON COLUMN public.demo_rejects.newer IS 'the last change of the same row that was applied since';

COMMENT ON COLUMN public.demo_rejects.answer IS 'why it was not applied when somebody asked for it';

ALTER TABLE public.demo_rejects ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.demo_rejects_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.demo_throttle (
    slave text NOT NULL,
    paused boolean NOT NULL,
    reason text NOT NULL,
    rows_per_second double precision,
    bytes_per_second double precision,
    loaders integer NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE public.demo_throttle IS 'Sluice: what the load of a slave is held to just now';

COMMENT ON COLUMN public.demo_throttle.paused IS 'no block is begun';

COMMENT ON COLUMN public.demo_throttle.since IS 'from when on the rate is in force';

CREATE TABLE public.history (
    account integer,
    delta numeric,
    note text
);

INSERT INTO public.demo_blocks VALUES ('dr1', 'public', 'history', 1, NULL, NULL, 'exported', '{"snapshot":"770:770:","low":4,"high":4,"next":771,"floors":{},"gap_floor":0,"time":"2026-11-28T19:57:21.308003Z","origin":"7713313846623179849 1 0/17CEFD8"}', '2026-11-28 19:57:19.431885+00', '2026-11-28 19:57:21.188305+00', '2026-11-28 19:57:21.42326+00', 20, 341, 'transfer of 1.0.0/438d256d/1.7c14bc81', '7-20261128T195721.247799208Z', '45d877876dd8f98bf2299d09dfdd45bf3fdbce58885a6219edd00e2561612b1e', true, NULL, 0, NULL);
INSERT INTO public.demo_blocks VALUES ('dr1', 'public', 'account', 1, NULL, '["21"]', 'exported', '{"snapshot":"772:772:","low":4,"high":4,"next":772,"floors":{},"gap_floor":0,"time":"2026-11-28T19:57:21.424358Z","origin":"7713313846623179849 1 0/17CF2C8"}', '2026-11-28 19:57:19.431886+00', '2026-11-28 19:57:21.279386+00', '2026-11-28 19:57:21.547203+00', 20, 190, 'transfer of 1.0.0/438d256d/0.5de1277c', '7-20261128T195721.335410528Z', '591ac387739c64621c362bee6cc934b97a54caf4c0621b3387aecd6200102399', true, NULL, 0, NULL);
INSERT INTO public.demo_blocks VALUES ('dr1', 'public', 'account', 2, '["21"]', '["41"]', 'exported', '{"snapshot":"775:775:","low":4,"high":4,"next":775,"floors":{},"gap_floor":0,"time":"2026-11-28T19:57:21.672712Z","origin":"7713313846623179849 1 0/17CF720"}', '2026-11-28 19:57:19.431886+00', '2026-11-28 19:57:21.607114+00', '2026-11-28 19:57:21.766081+00', 20, 217, 'transfer of 1.0.0/438d256d/1.7c14bc81', '7-20261128T195721.646186686Z', '17545bca6fee1765154be2006e8a6cb2dbaf301ac3956eea32d0f0904f685f72', false, NULL, 0, NULL);
INSERT INTO public.demo_blocks VALUES ('dr1', 'public', 'account', 3, '["41"]', NULL, 'exported', '{"snapshot":"778:778:","low":4,"high":4,"next":778,"floors":{},"gap_floor":0,"time":"2026-11-28T19:57:21.932509Z","origin":"7713313846623179849 1 0/17CFAB0"}', '2026-11-28 19:57:19.431886+00', '2026-11-28 19:57:21.83949+00', '2026-11-28 19:57:22.07518+00', 10, 117, 'transfer of 1.0.0/438d256d/0.5de1277c', '7-20261128T195721.872365381Z', '12ff6a57d57bb50db6eb0e8b83139ea7ab11d2ba98ed008c3fe02a5d38adefcf', false, NULL, 0, NULL);

INSERT INTO public.demo_checkpoint VALUES ('dr1', 'TRANSITION', 'Manual Data transfer: WAITING (stored on ''/mnt/disk/20261128T195719.635727Z'')', '{"snapshot":"768:768:","low":4,"high":4,"next":768,"floors":{},"gap_floor":0,"time":"2026-11-28T19:57:19.030975Z","origin":"7713313846623179849 1 0/17CE700"}', '2026-11-28 19:57:19.030975+00', 0, NULL, NULL, NULL, 0, 'transfer of 1.0.0', NULL, NULL, '2026-11-28 19:57:23.392654+00');

SELECT pg_catalog.setval('public.demo_rejects_id_seq', 1, false);

ALTER TABLE ONLY public.account
    ADD CONSTRAINT account_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.demo_blocks
    ADD CONSTRAINT demo_blocks_pkey PRIMARY KEY (slave, schema, tablename, block);

ALTER TABLE ONLY public.demo_checkpoint
    ADD CONSTRAINT demo_checkpoint_pkey PRIMARY KEY (slave);

ALTER TABLE ONLY public.demo_definitions
    ADD CONSTRAINT demo_definitions_pkey PRIMARY KEY (slave, kind, schema, tablename, name);

ALTER TABLE ONLY public.demo_rejects
    ADD CONSTRAINT demo_rejects_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.demo_throttle
    ADD CONSTRAINT demo_throttle_pkey PRIMARY KEY (slave);
