-- Situations that users of replication reported in public, and others of the same kind: statements of an application.
-- Read by test_reported_cases.py. A case begins with `-- case NAME`, perhaps `since RELEASE`, the first that knows its statements.
-- What follows `-- before` runs before the slave is loaded, what follows `-- during` while it follows; a statement may fail, as it
-- does on a server without capture. `-- left out TABLE: REASON`: a table that the slave must leave out, with that reason; `-- compare`:
-- what both sides are asked instead of the rows of the case's tables. The names of all objects of a case begin alike.
-- Each statement ends with `;` at the end of a line. One that begins with `@name ` runs in another session of that name, all others
-- in the first one. Sessions are a superuser's; `@app` is a plain role's.

-- ====================================================================================================
-- c01: lastval() and currval() are the application's
-- case c01
-- before
CREATE TABLE c01_person (id serial PRIMARY KEY, name text NOT NULL);
CREATE TABLE c01_plain (id int PRIMARY KEY, v text);
GRANT ALL ON ALL TABLES IN SCHEMA public TO reported_app;
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO reported_app;
-- during
@app INSERT INTO c01_plain VALUES (1, 'a');
@app SELECT lastval();
@app INSERT INTO c01_person (name) VALUES ('x');
@app SELECT lastval() = currval('c01_person_id_seq'), lastval();
@app INSERT INTO c01_person (name) SELECT 'many' FROM generate_series(1, 40);
@app SELECT lastval();
@app UPDATE c01_person SET name = name || '!';
@app DELETE FROM c01_person WHERE id % 7 = 0;
@app SELECT lastval();
INSERT INTO c01_person (name) VALUES ('y') RETURNING id;
SELECT lastval() = currval('c01_person_id_seq');
DISCARD SEQUENCES;
INSERT INTO c01_plain VALUES (2, 'b');
SELECT lastval();

-- case c01 other ways
-- before
CREATE SEQUENCE c01o_cached CACHE 20;
CREATE TABLE c01o_cached_t (id bigint PRIMARY KEY DEFAULT nextval('c01o_cached'), v text);
CREATE TABLE c01o_identity (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text UNIQUE);
CREATE TABLE c01o_parts (id serial, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE c01o_parts_1 PARTITION OF c01o_parts FOR VALUES IN (1);
CREATE TABLE c01o_log (n serial PRIMARY KEY, id int);
CREATE FUNCTION c01o_log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.c01o_log (id) VALUES (NEW.id); RETURN NULL; END $$;
CREATE TABLE c01o_logged (id serial PRIMARY KEY, v text);
CREATE TRIGGER z AFTER INSERT ON c01o_logged FOR EACH ROW EXECUTE FUNCTION c01o_log();
-- during
INSERT INTO c01o_cached_t (v) VALUES ('a'), ('b');
SELECT lastval(), currval('c01o_cached');
INSERT INTO c01o_identity (v) VALUES ('a') ON CONFLICT (v) DO UPDATE SET v = excluded.v || '2';
INSERT INTO c01o_identity (v) VALUES ('a') ON CONFLICT (v) DO UPDATE SET v = excluded.v || '2';
INSERT INTO c01o_identity (v) VALUES ('a') ON CONFLICT DO NOTHING;
SELECT lastval();
INSERT INTO c01o_parts (k) VALUES (1), (1);
SELECT lastval();
INSERT INTO c01o_logged (v) VALUES ('a'), ('b');
SELECT lastval(), currval('c01o_logged_id_seq'), currval('c01o_log_n_seq');
SET search_path = '';
INSERT INTO public.c01o_identity (v) VALUES ('q');
SELECT lastval();
RESET search_path;
BEGIN;
SELECT setval('c01o_cached', 5000);
INSERT INTO c01o_cached_t VALUES (DEFAULT, 'after setval');
ROLLBACK;
SELECT lastval();
SET work_mem = '64kB';
INSERT INTO c01o_identity (v) SELECT repeat('w', 500) || g FROM generate_series(1, 1500) g;
SELECT lastval();
ALTER TABLE c01o_identity ADD later int DEFAULT 7;
SELECT lastval();
WITH a AS (INSERT INTO c01o_identity (v) VALUES ('cte') RETURNING id),
    b AS (INSERT INTO c01o_logged (v) SELECT id::text FROM a RETURNING id) SELECT count(*) FROM b;
SELECT lastval();
DO $$ BEGIN PERFORM nextval('c01o_cached'); INSERT INTO public.c01_plain VALUES (77, 'do'); END $$;
SELECT lastval() = currval('c01o_cached');

-- ====================================================================================================
-- c02: ALTER COLUMN … TYPE … USING an expression
-- case c02
-- before
CREATE TABLE c02_epoch (id int PRIMARY KEY, at integer);
INSERT INTO c02_epoch VALUES (1, 0), (2, 1700000000), (3, NULL);
CREATE TABLE c02_code (id int PRIMARY KEY, code text);
INSERT INTO c02_code VALUES (1, '7'), (2, 'n/a'), (3, '');
CREATE TABLE c02_day (id int PRIMARY KEY, day text);
INSERT INTO c02_day VALUES (1, '31/12/2020'), (2, '03/04/2020');
CREATE TABLE c02_doc (id int PRIMARY KEY, doc text, tags text, n int);
INSERT INTO c02_doc VALUES (1, 'a "b"', 'x,y', 40000), (2, NULL, '', -5);
CREATE TABLE c02_ref (id int PRIMARY KEY, ref integer);
INSERT INTO c02_ref VALUES (1, 1), (2, 2);
CREATE TABLE c02_twice (id int PRIMARY KEY, price integer);
INSERT INTO c02_twice VALUES (1, 250), (2, 99);
-- during
ALTER TABLE c02_epoch ALTER at TYPE timestamptz USING to_timestamp(at);
INSERT INTO c02_epoch VALUES (4, '2024-02-29 12:00+00');
ALTER TABLE c02_code ALTER code TYPE integer USING CASE WHEN code ~ '^\d+$' THEN code::int END;
INSERT INTO c02_code VALUES (4, 4);
ALTER TABLE c02_day ALTER day TYPE date USING to_date(day, 'DD/MM/YYYY');
INSERT INTO c02_day VALUES (3, '2024-02-29');
ALTER TABLE c02_doc ALTER doc TYPE jsonb USING to_jsonb(doc), ALTER tags TYPE text[] USING string_to_array(tags, ','),
    ALTER n TYPE smallint USING least(n, 32767);
DELETE FROM c02_doc WHERE id = 2;
ALTER TABLE c02_ref ALTER ref TYPE uuid USING gen_random_uuid();
INSERT INTO c02_ref VALUES (3, '00000000-0000-0000-0000-000000000003');
ALTER TABLE c02_twice ALTER price TYPE numeric(10,2) USING price / 100.0;
INSERT INTO c02_twice VALUES (3, 1.25);

-- case c02 of the same type
-- before
CREATE TYPE c02s_mood AS ENUM ('sad', 'ok');
CREATE TABLE c02s_int (id int PRIMARY KEY, n int, v text);
INSERT INTO c02s_int SELECT g, g, 'v' || g FROM generate_series(1, 30) g;
CREATE TABLE c02s_part (id int PRIMARY KEY, n int) PARTITION BY HASH (id);
CREATE TABLE c02s_part_0 PARTITION OF c02s_part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE c02s_part_1 PARTITION OF c02s_part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO c02s_part SELECT g, g FROM generate_series(1, 30) g;
CREATE TABLE c02s_keyless (n int, m c02s_mood);
INSERT INTO c02s_keyless VALUES (1, 'ok'), (1, 'ok'), (NULL, NULL);
CREATE TABLE c02s_heir_of (id int PRIMARY KEY, n int);
CREATE TABLE c02s_heir (PRIMARY KEY (id)) INHERITS (c02s_heir_of);
INSERT INTO c02s_heir VALUES (1, 1), (2, 2);
INSERT INTO c02s_heir_of VALUES (3, 3);
-- during
ALTER TABLE c02s_int ALTER n TYPE int USING n * 2;
DELETE FROM c02s_int WHERE id = 3;
UPDATE c02s_int SET v = 'new' WHERE id = 4;
UPDATE c02s_int SET n = 0 WHERE id = 5;
ALTER TABLE c02s_part ALTER n TYPE int USING -n;
DELETE FROM c02s_part WHERE id = 3;
UPDATE c02s_part SET n = n - 1 WHERE id = 4;
ALTER TABLE c02s_keyless ALTER n TYPE int USING n + 10, ALTER m TYPE c02s_mood USING 'sad';
INSERT INTO c02s_keyless VALUES (5, 'ok');
ALTER TABLE c02s_heir_of ALTER n TYPE int USING n + 100;
DELETE FROM c02s_heir WHERE id = 1;
BEGIN;
ALTER TABLE c02s_int ADD r double precision DEFAULT random();
ALTER TABLE c02s_int ALTER r DROP DEFAULT;
COMMIT;
DELETE FROM c02s_int WHERE id = 6;
BEGIN;
ALTER TABLE c02s_int ALTER n TYPE text;
ALTER TABLE c02s_int ALTER n TYPE int USING 7;
ALTER TABLE c02s_int RENAME TO c02s_other;
COMMIT;
DELETE FROM c02s_other WHERE id = 7;

-- case c02 of keys
-- left out c02k_text: the slave refuses to follow the master's change of its definition
-- before
CREATE TABLE c02k_moved (id int PRIMARY KEY, v text);
INSERT INTO c02k_moved SELECT g, 'v' || g FROM generate_series(1, 9) g;
CREATE TABLE c02k_text (id text PRIMARY KEY, v text);
INSERT INTO c02k_text VALUES ('1', 'a'), ('2', 'b');
CREATE TABLE c02k_two (a int, b int, v text, PRIMARY KEY (a, b));
INSERT INTO c02k_two VALUES (1, 2, 'x'), (2, 1, 'y');
-- during
ALTER TABLE c02k_moved ALTER id TYPE int USING id + 1000;
INSERT INTO c02k_moved VALUES (5, 'again');
ALTER TABLE c02k_text ALTER id TYPE uuid USING md5(id)::uuid;
INSERT INTO c02k_text VALUES (md5('3')::uuid, 'c');
ALTER TABLE c02k_two ALTER a TYPE int USING b, ALTER b TYPE int USING a;
DELETE FROM c02k_two WHERE a = 1;

-- ====================================================================================================
-- c03: keys are retyped, their foreign key made again
-- case c03
-- before
CREATE TABLE c03_parent (id text PRIMARY KEY, v text);
CREATE TABLE c03_child (id int PRIMARY KEY, parent text CONSTRAINT c03_child_parent REFERENCES c03_parent);
INSERT INTO c03_parent VALUES ('11111111-1111-1111-1111-111111111111', 'one'),
    ('22222222-2222-2222-2222-222222222222', 'two');
INSERT INTO c03_child VALUES (1, '11111111-1111-1111-1111-111111111111'), (2, NULL);
-- during
BEGIN;
ALTER TABLE c03_child DROP CONSTRAINT c03_child_parent;
ALTER TABLE c03_parent ALTER id TYPE uuid USING id::uuid;
ALTER TABLE c03_child ALTER parent TYPE uuid USING parent::uuid;
ALTER TABLE c03_child ADD CONSTRAINT c03_child_parent FOREIGN KEY (parent) REFERENCES c03_parent (id);
COMMIT;
INSERT INTO c03_parent VALUES ('33333333-3333-3333-3333-333333333333', 'three');
INSERT INTO c03_child VALUES (3, '33333333-3333-3333-3333-333333333333');

-- case c03 of itself
-- before
CREATE TABLE c03s_node (id int PRIMARY KEY, up int CONSTRAINT c03s_up REFERENCES c03s_node, u int UNIQUE);
CREATE TABLE c03s_leaf (id int PRIMARY KEY, u int CONSTRAINT c03s_u REFERENCES c03s_node (u) ON UPDATE CASCADE);
INSERT INTO c03s_node VALUES (1, NULL, 10), (2, 1, 20);
INSERT INTO c03s_leaf VALUES (1, 10);
-- during
BEGIN;
ALTER TABLE c03s_node DROP CONSTRAINT c03s_up;
ALTER TABLE c03s_node ALTER id TYPE text, ALTER up TYPE text;
ALTER TABLE c03s_node ADD CONSTRAINT c03s_up FOREIGN KEY (up) REFERENCES c03s_node;
COMMIT;
INSERT INTO c03s_node VALUES ('x', '1', 30);
ALTER TABLE c03s_leaf DROP CONSTRAINT c03s_u;
ALTER TABLE c03s_node ALTER u TYPE numeric(9,2);
ALTER TABLE c03s_leaf ALTER u TYPE numeric(9,2);
ALTER TABLE c03s_leaf ADD CONSTRAINT c03s_u FOREIGN KEY (u) REFERENCES c03s_node (u) ON UPDATE CASCADE;
UPDATE c03s_node SET u = u + 0.5;

-- ====================================================================================================
-- c04: arrays of a type with another delimiter
-- case c04
-- before
CREATE DOMAIN c04_zone AS box;
CREATE TABLE c04_area (id int PRIMARY KEY);
CREATE TABLE c04_domain (id int PRIMARY KEY);
CREATE TABLE c04_part (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE c04_part_1 PARTITION OF c04_part FOR VALUES FROM (0) TO (100);
INSERT INTO c04_area VALUES (1), (2);
INSERT INTO c04_domain VALUES (1), (2);
INSERT INTO c04_part VALUES (1), (2);
-- during
ALTER TABLE c04_area ADD zone box NOT NULL DEFAULT '((1,1),(0,0))';
INSERT INTO c04_area VALUES (3, '((3,3),(2,2))');
ALTER TABLE c04_domain ADD zone c04_zone DEFAULT '((1,1),(0,0))';
INSERT INTO c04_domain VALUES (3, '((3,3),(2,2))');
ALTER TABLE c04_part ADD zone box NOT NULL DEFAULT '((1,1),(0,0))';
INSERT INTO c04_part VALUES (3, '((3,3),(2,2))');
ALTER TABLE c04_area ADD zones box[] DEFAULT ARRAY[box '((1,1),(0,0))', box '((2,2),(0,0))'], ADD odd text DEFAULT '{a;b","}';
ALTER TABLE c04_area ADD empty text DEFAULT '', ADD nul text DEFAULT 'NULL', ADD quoted text[] DEFAULT '{"a,b",NULL,"NULL"}';

-- ====================================================================================================
-- c05: bytes above 127 in "char"
-- PostgreSQL 14 captures it as later releases do, but cannot read it as a slave.
-- case c05
-- left out on 14 c05_flag: cannot read a "char"
-- before
CREATE TABLE c05_flag (id int PRIMARY KEY, c "char");
INSERT INTO c05_flag VALUES (1, 'a');
-- during
INSERT INTO c05_flag VALUES (2, 'é');
UPDATE c05_flag SET c = (-128)::"char" WHERE id = 1;
INSERT INTO c05_flag SELECT g + 1000, g::"char" FROM generate_series(-128, 127) g;
UPDATE c05_flag SET id = id + 1 WHERE id = 2;
DELETE FROM c05_flag WHERE id BETWEEN 900 AND 910;
-- compare
SELECT id, c::int4 FROM public.c05_flag ORDER BY 1;

-- ====================================================================================================
-- c08: values that name objects which only the master has
-- case c08
-- left out c08_object: does not exist
-- before
CREATE TABLE c08_object (id int PRIMARY KEY, what regclass, how regprocedure);
INSERT INTO c08_object VALUES (1, 'pg_catalog.pg_class', 'pg_catalog.lower(text)');
CREATE VIEW c08_view AS SELECT 1 AS one;
CREATE TABLE c08_beside (id int PRIMARY KEY, v text);
-- during
INSERT INTO c08_object VALUES (4, 'pg_catalog.pg_type', NULL);
INSERT INTO c08_object VALUES (2, 'c08_view', NULL);
INSERT INTO c08_beside VALUES (1, 'goes on');

-- ====================================================================================================
-- c09 and c10: two sessions meet a changed definition
-- case c09
-- before
CREATE TABLE c09_held (id int PRIMARY KEY, a text, b text);
INSERT INTO c09_held SELECT g, 'a' || g, 'b' || g FROM generate_series(1, 5) g;
CREATE TABLE c09_rolled (id int PRIMARY KEY, a text, b text);
INSERT INTO c09_rolled SELECT g, 'a' || g, 'b' || g FROM generate_series(1, 5) g;
-- during
BEGIN;
ALTER TABLE c09_held DROP COLUMN a;
ALTER TABLE c09_held RENAME COLUMN b TO a;
ALTER TABLE c09_rolled DROP COLUMN a;
ALTER TABLE c09_rolled RENAME COLUMN b TO a;
COMMIT;
BEGIN;
INSERT INTO c09_held VALUES (101, 'held');
@two INSERT INTO c09_held VALUES (102, 'meanwhile');
@three BEGIN;
@three INSERT INTO c09_rolled VALUES (101, 'rolled back');
@two INSERT INTO c09_rolled VALUES (102, 'meanwhile');
@three ROLLBACK;
COMMIT;
INSERT INTO c09_held VALUES (103, 'after');
INSERT INTO c09_rolled VALUES (103, 'after');

-- case c10
-- before
CREATE TABLE c10_swap (id int PRIMARY KEY, x int, y int);
INSERT INTO c10_swap SELECT g, g, -g FROM generate_series(1, 5) g;
CREATE TABLE c10_add (id int PRIMARY KEY, a text);
INSERT INTO c10_add SELECT g, 'a' || g FROM generate_series(1, 5) g;
-- during
BEGIN;
ALTER TABLE c10_swap RENAME x TO t;
ALTER TABLE c10_swap RENAME y TO x;
ALTER TABLE c10_swap RENAME t TO y;
ALTER TABLE c10_add RENAME a TO old_a;
ALTER TABLE c10_add ADD a integer;
COMMIT;
BEGIN;
INSERT INTO c10_swap (id, x, y) VALUES (101, 1, 2);
INSERT INTO c10_add (id, old_a, a) VALUES (101, 'held', 1);
@two INSERT INTO c10_swap (id, x, y) VALUES (102, 1, 2);
@two INSERT INTO c10_add (id, old_a, a) VALUES (102, 'meanwhile', 2);
COMMIT;
@two UPDATE c10_swap SET x = y, y = x WHERE id < 4;
@two ALTER TABLE c10_swap RENAME x TO y2;
INSERT INTO c10_swap (id, y2, y) VALUES (103, 1, 2);

-- case c11
-- before
CREATE TABLE c11_drop (id int PRIMARY KEY, a int NOT NULL, b int);
CREATE TABLE c11_swap (id int PRIMARY KEY, x int, y int);
CREATE TABLE c11_add (id int PRIMARY KEY, a int);
INSERT INTO c11_drop SELECT g, g, -g FROM generate_series(1, 5) g;
INSERT INTO c11_swap SELECT g, g, -g FROM generate_series(1, 5) g;
INSERT INTO c11_add SELECT g, g FROM generate_series(1, 5) g;
-- during
BEGIN;
ALTER TABLE c11_drop DROP a;
ALTER TABLE c11_drop RENAME b TO a;
COMMIT;
BEGIN;
ALTER TABLE c11_swap RENAME x TO t;
ALTER TABLE c11_swap RENAME y TO x;
ALTER TABLE c11_swap RENAME t TO y;
COMMIT;
BEGIN;
ALTER TABLE c11_add RENAME a TO old_a;
ALTER TABLE c11_add ADD a int;
COMMIT;
INSERT INTO c11_drop (id, a) VALUES (6, -6);
INSERT INTO c11_swap (id, x, y) VALUES (6, -6, 6);
INSERT INTO c11_add (id, old_a, a) VALUES (6, 6, 600);

-- ====================================================================================================
-- c12 to c14: nobody waits for another transaction of the application
-- case c12
-- before
CREATE TABLE c12_part (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE c12_part_1 PARTITION OF c12_part FOR VALUES FROM (0) TO (1000);
CREATE TABLE c12_heir_of (id int PRIMARY KEY, v text);
CREATE TABLE c12_heir (PRIMARY KEY (id)) INHERITS (c12_heir_of);
INSERT INTO c12_part VALUES (1, 'base');
-- during
ALTER TABLE c12_part ADD note text;
ALTER TABLE c12_heir_of ADD note text;
BEGIN;
INSERT INTO c12_part VALUES (2, 'held');
INSERT INTO c12_heir VALUES (2, 'held');
@two INSERT INTO c12_part VALUES (3, 'must not wait');
@two INSERT INTO c12_heir VALUES (3, 'must not wait');
@two INSERT INTO c12_heir_of VALUES (4, 'must not wait');
@two UPDATE c12_part SET v = 'x' WHERE id = 1;
COMMIT;

-- case c13
-- before
CREATE TABLE c13_before (id int PRIMARY KEY, v text);
CREATE TABLE c13_moving (id int PRIMARY KEY, v text);
INSERT INTO c13_before VALUES (1, 'base');
-- during
ALTER TABLE c13_before RENAME TO c13_after;
ALTER TABLE c13_moving SET SCHEMA reported_elsewhere;
BEGIN;
INSERT INTO c13_after VALUES (2, 'held');
INSERT INTO reported_elsewhere.c13_moving VALUES (2, 'held');
@two INSERT INTO c13_after VALUES (3, 'must not wait');
@two INSERT INTO reported_elsewhere.c13_moving VALUES (3, 'must not wait');
COMMIT;

-- case c14
-- before
CREATE TABLE c14_x (id int PRIMARY KEY);
CREATE TABLE c14_y (id int PRIMARY KEY);
CREATE TABLE c14_z (id int PRIMARY KEY);
CREATE TABLE c14_gone (id int PRIMARY KEY);
-- during
BEGIN;
ALTER TABLE c14_x RENAME TO c14_x2;
INSERT INTO c14_x2 VALUES (2);
@two BEGIN;
@two LOCK TABLE c14_z IN SHARE ROW EXCLUSIVE MODE;
@two ALTER TABLE c14_y RENAME TO c14_y2;
@two INSERT INTO c14_y2 VALUES (2);
@two COMMIT;
INSERT INTO c14_z VALUES (1);
PREPARE TRANSACTION 'c14';
@two ALTER TABLE c14_y2 RENAME TO c14_y3;
@two DROP TABLE c14_gone;
@two ALTER TABLE c14_z ADD v text DEFAULT 'x';
@two INSERT INTO c14_y3 VALUES (3);
COMMIT PREPARED 'c14';
INSERT INTO c14_x2 VALUES (3);

-- ====================================================================================================
-- c15: an index is built anew
-- case c15
-- before
CREATE TABLE c15_two (a int NOT NULL, b int NOT NULL, v text);
CREATE UNIQUE INDEX c15_a ON c15_two (a);
CREATE UNIQUE INDEX c15_b ON c15_two (b);
INSERT INTO c15_two SELECT g, 1000 - g, 'v' || g FROM generate_series(1, 500) g;
-- during
REINDEX INDEX CONCURRENTLY c15_a;
UPDATE c15_two SET b = b + 5000 WHERE a <= 10;
UPDATE c15_two SET a = a + 5000 WHERE b < 600;
DELETE FROM c15_two WHERE a = 11;
INSERT INTO c15_two VALUES (11, 989, 'again');
CREATE UNIQUE INDEX CONCURRENTLY c15_b_new ON c15_two (b);
DROP INDEX CONCURRENTLY c15_b;
ALTER INDEX c15_b_new RENAME TO c15_b;
UPDATE c15_two SET v = v || '!' WHERE a < 50;

-- ====================================================================================================
-- c17: triggers of the application on single partitions, and other rows that one statement changes twice
-- case c17
-- before
CREATE TABLE c17_event (k int, id int, dup boolean NOT NULL DEFAULT false, PRIMARY KEY (k, id)) PARTITION BY LIST (k);
CREATE TABLE c17_event_1 PARTITION OF c17_event FOR VALUES IN (1);
CREATE TABLE c17_event_2 PARTITION OF c17_event FOR VALUES IN (2);
CREATE FUNCTION c17_mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE public.c17_event SET dup = true WHERE k = NEW.k AND id > NEW.id; RETURN NULL; END $$;
CREATE TRIGGER c17_mark AFTER INSERT ON c17_event_1 FOR EACH ROW EXECUTE FUNCTION c17_mark();
INSERT INTO c17_event VALUES (1, 1), (2, 1);
-- during
INSERT INTO c17_event (k, id) VALUES (1, 10), (1, 11), (1, 12), (2, 10), (2, 11);
CREATE TRIGGER c17_later AFTER UPDATE OF dup ON c17_event_2 FOR EACH ROW WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION c17_mark();
UPDATE c17_event SET dup = false WHERE k = 2;
UPDATE c17_event SET k = 2, id = id + 100 WHERE k = 1 AND id = 10;

-- case c17 statements that change a row twice
-- before
CREATE TABLE c17t_row (id int PRIMARY KEY, n int DEFAULT 0, up int REFERENCES c17t_row ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE c17t_log (id int PRIMARY KEY, v text);
CREATE RULE c17t_rule AS ON UPDATE TO c17t_log WHERE new.v = 'double' DO ALSO
    INSERT INTO c17t_row (id) VALUES (new.id + 1000);
CREATE FUNCTION c17t_count() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    NEW.n = coalesce(NEW.n, 0) + 1; RETURN NEW; END $$;
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON c17t_row FOR EACH ROW EXECUTE FUNCTION c17t_count();
CREATE FUNCTION c17t_after() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.n < 3 THEN UPDATE public.c17t_row SET n = n WHERE id = NEW.id; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON c17t_row DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION c17t_after();
INSERT INTO c17t_row SELECT g, 0, nullif(g - 1, 0) FROM generate_series(1, 9) g;
INSERT INTO c17t_log SELECT g, 'v' FROM generate_series(1, 5) g;
-- during
INSERT INTO c17t_row VALUES (20), (21), (20) ON CONFLICT (id) DO NOTHING;
INSERT INTO c17t_row VALUES (20), (22) ON CONFLICT (id) DO UPDATE SET n = c17t_row.n + 10;
UPDATE c17t_row SET id = id + 100 WHERE id IN (3, 20);
WITH a AS (UPDATE c17t_row SET n = 50 WHERE id = 22 RETURNING id), b AS (DELETE FROM c17t_row WHERE id = 21 RETURNING id),
    c AS (INSERT INTO c17t_row (id) SELECT id + 500 FROM a RETURNING id) SELECT count(*) FROM b, c;
UPDATE c17t_log SET v = 'double' WHERE id < 4;
DELETE FROM c17t_row WHERE id = 103;
UPDATE c17t_row SET id = -id WHERE id IN (1, 2);

-- case c17 MERGE since 15
-- before
CREATE TABLE c17m_t (k int, id int, v text, PRIMARY KEY (k, id)) PARTITION BY LIST (k);
CREATE TABLE c17m_t_1 PARTITION OF c17m_t FOR VALUES IN (1);
CREATE TABLE c17m_t_2 PARTITION OF c17m_t FOR VALUES IN (2);
CREATE FUNCTION c17m_touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE public.c17m_t SET v = v || '+' WHERE k = 1 AND v NOT LIKE '%+'; RETURN NULL; END $$;
CREATE TRIGGER touch AFTER UPDATE ON c17m_t_2 FOR EACH ROW EXECUTE FUNCTION c17m_touch();
INSERT INTO c17m_t SELECT 1 + g % 2, g, 'v' FROM generate_series(1, 10) g;
-- during
MERGE INTO c17m_t t USING (SELECT 1 + g % 2 AS k, g AS id FROM generate_series(4, 14) g) s ON t.k = s.k AND t.id = s.id
    WHEN MATCHED AND s.id = 5 THEN DELETE WHEN MATCHED AND s.id = 6 THEN DO NOTHING
    WHEN MATCHED THEN UPDATE SET k = 3 - t.k, v = 'moved' WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.id, 'new');

-- case c17 COPY and replica triggers
-- before
CREATE TABLE c17c_t (id int PRIMARY KEY, v text);
CREATE FUNCTION c17c_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM public.c17c_t WHERE id = NEW.id - 2; RETURN NULL; END $$;
CREATE TRIGGER "!" AFTER INSERT ON c17c_t FOR EACH ROW EXECUTE FUNCTION c17c_f();
ALTER TABLE c17c_t ENABLE ALWAYS TRIGGER "!";
CREATE TABLE c17c_s (id int PRIMARY KEY, v text);
CREATE FUNCTION c17c_g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE public.c17c_s SET v = v || '!' WHERE id IN (SELECT id FROM fresh) AND length(v) < 5; RETURN NULL; END $$;
CREATE TRIGGER a AFTER UPDATE ON c17c_s REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION c17c_g();
INSERT INTO c17c_s VALUES (1, 'a'), (2, 'b');
-- during
INSERT INTO c17c_t SELECT g, 'x' FROM generate_series(1, 20) g;
COPY c17c_t FROM PROGRAM 'printf "101\ta\n102\tb\n103\tc\n"';
UPDATE c17c_s SET v = v || '1';
BEGIN;
SAVEPOINT s;
INSERT INTO c17c_t VALUES (200, 'gone');
ROLLBACK TO s;
INSERT INTO c17c_t VALUES (201, 'kept');
COMMIT;

-- ====================================================================================================
-- c25: bulk statements under limits of temporary files; check names such roles
-- case c25
-- before
CREATE TABLE c25_bulk (id int PRIMARY KEY, pad text);
INSERT INTO c25_bulk SELECT g, repeat('x', 200) FROM generate_series(1, 5000) g;
-- during
SET work_mem = '64kB';
UPDATE c25_bulk SET pad = pad || 'y';
DELETE FROM c25_bulk WHERE id % 2 = 0;
INSERT INTO c25_bulk SELECT g, repeat('z', 300) FROM generate_series(100001, 105000) g;

-- case c39
-- before
CREATE TABLE c39_text (id int PRIMARY KEY, t text, u text);
INSERT INTO c39_text VALUES (1, 'base', 'base');
-- during
INSERT INTO c39_text VALUES (2, ' type="unchanged"></col>', 'x');
INSERT INTO c39_text VALUES (3, '<col name="t" type="unchanged"></col>', 'x');
INSERT INTO c39_text VALUES (4, E'\x01 type="unchanged"></col>', 'x');
UPDATE c39_text SET t = ' type="unchanged"></col>' WHERE id = 1;
UPDATE c39_text SET u = 'y' WHERE id IN (2, 3, 4);
UPDATE c39_text SET id = id + 10 WHERE id IN (2, 3);
DELETE FROM c39_text WHERE id = 4;

-- ====================================================================================================
-- c44: rows that no trigger sees
-- case c44
-- left out c44_unlogged: is unlogged
-- left out c44_disabled: is disabled
-- before
CREATE TABLE c44_unlogged (id int PRIMARY KEY, v text);
CREATE TABLE c44_disabled (id int PRIMARY KEY, v text);
CREATE TABLE c44_part (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE c44_part_1 PARTITION OF c44_part FOR VALUES FROM (0) TO (100);
CREATE TABLE c44_part_2 PARTITION OF c44_part FOR VALUES FROM (100) TO (200);
INSERT INTO c44_part VALUES (1, 'a'), (101, 'b');
CREATE TABLE c44_beside (id int PRIMARY KEY, v text);
-- during
ALTER TABLE c44_unlogged SET UNLOGGED;
INSERT INTO c44_unlogged VALUES (1, 'x');
ALTER TABLE c44_disabled DISABLE TRIGGER ALL;
INSERT INTO c44_disabled VALUES (1, 'x');
TRUNCATE c44_part_1;
INSERT INTO c44_part VALUES (2, 'again');
INSERT INTO c44_beside VALUES (1, 'goes on');

-- ====================================================================================================
-- c45: generated columns
-- case c45
-- before
CREATE TABLE c45_t (id int PRIMARY KEY, n int, g int GENERATED ALWAYS AS (n * 2) STORED);
INSERT INTO c45_t VALUES (1, 1), (2, 2);
CREATE TABLE c45_part (id int PRIMARY KEY, n int, g int GENERATED ALWAYS AS (n + 1) STORED) PARTITION BY RANGE (id);
CREATE TABLE c45_part_1 PARTITION OF c45_part FOR VALUES FROM (0) TO (100);
-- during
UPDATE c45_t SET n = 5 WHERE id = 1;
INSERT INTO c45_part (id, n) VALUES (1, 1);
ALTER TABLE c45_t ADD h text GENERATED ALWAYS AS ('<' || n) STORED;
INSERT INTO c45_t (id, n) VALUES (3, 3);
ALTER TABLE c45_t ALTER g DROP EXPRESSION;
UPDATE c45_t SET g = 77 WHERE id = 2;
UPDATE c45_part SET n = 9;

-- case c45 another expression since 17
-- before
CREATE TABLE c45e_t (id int PRIMARY KEY, n int, g int GENERATED ALWAYS AS (n * 2) STORED);
INSERT INTO c45e_t VALUES (1, 1), (2, 2);
-- during
ALTER TABLE c45e_t ALTER g SET EXPRESSION AS (n * 3);
INSERT INTO c45e_t (id, n) VALUES (3, 3);
UPDATE c45e_t SET n = n + 1 WHERE id = 1;

-- ====================================================================================================
-- kw: names
-- case back to the names before, with rows in between
-- before
CREATE TYPE back_mood AS ENUM ('sad', 'ok');
CREATE TYPE back_pair AS (x int, y text);
CREATE TABLE back_t (id int PRIMARY KEY, a int DEFAULT 7, b int, m back_mood, p back_pair);
INSERT INTO back_t VALUES (1, 1, 1, 'sad', '(1,one)');
-- during
BEGIN;
ALTER TABLE back_t RENAME a TO third;
ALTER TABLE back_t RENAME b TO a;
INSERT INTO back_t (id, third, a) VALUES (2, 20, 21);
ALTER TABLE back_t RENAME a TO b;
ALTER TABLE back_t RENAME third TO a;
COMMIT;
INSERT INTO back_t (id, a, b) VALUES (3, 30, 31);
UPDATE back_t SET a = a + 1, b = 5;
ALTER TYPE back_mood RENAME VALUE 'sad' TO 'blue';
INSERT INTO back_t (id, m) VALUES (4, 'blue');
ALTER TYPE back_mood RENAME VALUE 'blue' TO 'sad';
INSERT INTO back_t (id, m) VALUES (5, 'sad');
ALTER TYPE back_pair RENAME ATTRIBUTE x TO z;
INSERT INTO back_t (id, p) VALUES (6, '(6,six)');
ALTER TYPE back_pair RENAME ATTRIBUTE z TO x;
INSERT INTO back_t (id, p) VALUES (7, '(7,seven)');
DELETE FROM back_t WHERE m = 'sad' AND id = 1;

-- case inh of tables that begin to inherit
-- before
CREATE TABLE inh_base (id int PRIMARY KEY, v text);
CREATE TABLE inh_kid (extra int, PRIMARY KEY (id)) INHERITS (inh_base);
CREATE TABLE inh_other (id int PRIMARY KEY, v text, w int);
CREATE TABLE inh_fresh (id int PRIMARY KEY, v text);
CREATE TABLE inh_heir (id int PRIMARY KEY, v text);
INSERT INTO inh_base VALUES (1, 'base');
INSERT INTO inh_kid VALUES (2, 'kid', 3);
INSERT INTO inh_other VALUES (3, 'other', 4), (4, 'stays', 5);
INSERT INTO inh_fresh SELECT g, 'fresh' FROM generate_series(1, 5) g;
INSERT INTO inh_heir SELECT g, 'heir' FROM generate_series(11, 15) g;
-- during
ALTER TABLE inh_other INHERIT inh_base;
UPDATE inh_base SET v = v || '!';
DELETE FROM inh_base WHERE id = 3;
ALTER TABLE inh_base ADD w int DEFAULT 5;
INSERT INTO inh_other VALUES (8, 'x', 9);
ALTER TABLE inh_heir INHERIT inh_fresh;
DELETE FROM inh_fresh WHERE id IN (2, 12);
INSERT INTO inh_heir VALUES (16, 'direct');

-- case seq of a key that gets another column, as GitLab converts keys to bigint
-- before
CREATE TABLE seq_key (id serial PRIMARY KEY, v text);
CREATE TABLE seq_ref (id int PRIMARY KEY, t int REFERENCES seq_key ON DELETE CASCADE);
CREATE TABLE seq_old (id serial PRIMARY KEY, v text);
CREATE TABLE seq_user (id int PRIMARY KEY DEFAULT nextval('seq_old_id_seq'), n int DEFAULT nextval('seq_old_id_seq'));
CREATE TABLE seq_elsewhere (id int PRIMARY KEY, n serial);
CREATE TABLE reported_elsewhere.seq_other (id int PRIMARY KEY, n int DEFAULT nextval('seq_elsewhere_n_seq'));
INSERT INTO seq_key (v) SELECT 'v' || g FROM generate_series(1, 10) g;
INSERT INTO seq_ref SELECT g, g FROM generate_series(1, 5) g;
-- during
ALTER TABLE seq_key ADD id_convert_to_bigint bigint NOT NULL DEFAULT 0;
CREATE FUNCTION seq_sync() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id_convert_to_bigint := NEW.id; RETURN NEW; END $$;
CREATE TRIGGER seq_sync BEFORE INSERT OR UPDATE ON seq_key FOR EACH ROW EXECUTE FUNCTION seq_sync();
UPDATE seq_key SET id_convert_to_bigint = id;
INSERT INTO seq_key (v) VALUES ('synced');
CREATE UNIQUE INDEX CONCURRENTLY seq_new ON seq_key (id_convert_to_bigint);
BEGIN;
LOCK TABLE seq_key IN ACCESS EXCLUSIVE MODE;
ALTER TABLE seq_key RENAME id TO id_tmp;
ALTER TABLE seq_key RENAME id_convert_to_bigint TO id;
ALTER TABLE seq_key RENAME id_tmp TO id_convert_to_bigint;
DROP TRIGGER seq_sync ON seq_key;
ALTER SEQUENCE seq_key_id_seq OWNED BY seq_key.id;
ALTER TABLE seq_key ALTER id SET DEFAULT nextval('seq_key_id_seq'), ALTER id_convert_to_bigint SET DEFAULT 0;
ALTER TABLE seq_key DROP CONSTRAINT seq_key_pkey CASCADE;
ALTER INDEX seq_new RENAME TO seq_key_pkey;
ALTER TABLE seq_key ADD CONSTRAINT seq_key_pkey PRIMARY KEY USING INDEX seq_key_pkey;
INSERT INTO seq_key (v) VALUES ('in the swap');
COMMIT;
UPDATE seq_key SET v = v || '!' WHERE id % 2 = 0;
DELETE FROM seq_key WHERE id = 1;
ALTER TABLE seq_key DROP id_convert_to_bigint;
INSERT INTO seq_key (v) VALUES ('after');
DROP TABLE seq_old;
ALTER SEQUENCE seq_old_id_seq OWNED BY seq_user.id;
DROP TABLE seq_old;
INSERT INTO seq_user DEFAULT VALUES;
ALTER SEQUENCE seq_elsewhere_n_seq OWNED BY NONE;
ALTER TABLE seq_elsewhere DROP n;
INSERT INTO reported_elsewhere.seq_other VALUES (1), (2);

-- case kw
-- before
CREATE TABLE kw_live (id int PRIMARY KEY, start text, "while" text, "Loop$" text, "é ""x""" text);
CREATE TABLE kw_part (id int PRIMARY KEY, "begin" text) PARTITION BY RANGE (id);
CREATE TABLE kw_part_1 PARTITION OF kw_part FOR VALUES FROM (0) TO (100);
-- during
INSERT INTO kw_live VALUES (4, E'two\nlines', E'<\n', E'\t', '');
ALTER TABLE kw_live RENAME start TO "begin";
INSERT INTO kw_live VALUES (5, E'two\nlines', NULL, 'x', E'\x01');
ALTER TABLE kw_live RENAME "while" TO "strict";
ALTER TABLE kw_live RENAME TO "kw_foreach execute";
UPDATE "kw_foreach execute" SET "begin" = "begin" || E'\r', "strict" = 'by';
INSERT INTO kw_part VALUES (1, E'\n');
ALTER TABLE kw_part RENAME "begin" TO "declare";
UPDATE kw_part SET "declare" = E'<&>\n', id = 2;
