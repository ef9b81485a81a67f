-- See test_statements.py: `before` the slave is loaded, then `during`. `@b`: another session; `?`: may fail.
-- `{db}`, `{file}` and `{wide}` are filled in.

-- case xa
-- before
CREATE TABLE c01_t (id int PRIMARY KEY, v varchar(20));
INSERT INTO c01_t VALUES (1, 'a'), (2, 'b');
-- during
XA START 'a1';
INSERT INTO c01_t VALUES (10, 'xa');
UPDATE c01_t SET v = 'x' WHERE id = 1;
XA END 'a1';
XA PREPARE 'a1';
@b INSERT INTO c01_t VALUES (11, 'between');
XA COMMIT 'a1';
XA START 'a2', 'b''x', 7;
DELETE FROM c01_t WHERE id = 2;
XA END 'a2', 'b''x', 7;
XA PREPARE 'a2', 'b''x', 7;
XA ROLLBACK 'a2', 'b''x', 7;
XA START X'00ff', X'', 3;
INSERT INTO c01_t VALUES (12, 'xa');
SAVEPOINT s;
INSERT INTO c01_t VALUES (13, 'xa');
ROLLBACK TO s;
XA END X'00ff', X'', 3;
XA PREPARE X'00ff', X'', 3;
XA COMMIT X'00ff', X'', 3;

-- case savepoints
-- before
CREATE TABLE c02_t (id int PRIMARY KEY, v varchar(20));
CREATE TABLE c02_m (id int PRIMARY KEY) ENGINE = InnoDB;
-- during
BEGIN;
INSERT INTO c02_t VALUES (1, 'a');
SAVEPOINT `we ird``s`;
INSERT INTO c02_t VALUES (2, 'b');
SAVEPOINT WE;
INSERT INTO c02_t VALUES (3, 'c');
CREATE TEMPORARY TABLE c02_tmp (a int);
ROLLBACK TO SAVEPOINT `we ird``s`;
INSERT INTO c02_t VALUES (4, 'd');
SAVEPOINT we;
INSERT INTO c02_t VALUES (5, 'e');
SAVEPOINT `Ä x`;
DROP TEMPORARY TABLE c02_tmp;
ROLLBACK TO we;
RELEASE SAVEPOINT we;
COMMIT;
SET sql_mode = 'ANSI_QUOTES';
BEGIN;
INSERT INTO c02_t VALUES (6, 'a');
SAVEPOINT "s t";
INSERT INTO c02_t VALUES (7, 'a');
CREATE TEMPORARY TABLE c02_tmp2 (a int);
ROLLBACK TO "s t";
COMMIT;
SET sql_mode = DEFAULT;

-- case engines
-- left out c03_m: MyISAM
-- left out c03_a: Aria
-- left out c03_x: MyISAM
-- left out c03_mem: MEMORY
-- before
CREATE TABLE c03_t (id int PRIMARY KEY, v varchar(20));
CREATE TABLE c03_x (id int PRIMARY KEY, v varchar(20));
INSERT INTO c03_x VALUES (1, 'a');
-- during
CREATE TABLE c03_m (id int PRIMARY KEY) ENGINE = MyISAM;
INSERT INTO c03_m VALUES (1), (2);
? INSERT INTO c03_m VALUES (3), (2), (4);
CREATE TABLE c03_a (id int PRIMARY KEY) ENGINE = Aria;
INSERT INTO c03_a VALUES (1);
CREATE TABLE c03_mem (id int PRIMARY KEY) ENGINE = MEMORY;
INSERT INTO c03_mem VALUES (1);
BEGIN;
INSERT INTO c03_t VALUES (1, 'a');
INSERT INTO c03_m VALUES (5);
INSERT INTO c03_t VALUES (2, 'a');
ROLLBACK;
INSERT INTO c03_t VALUES (3, 'c');
ALTER TABLE c03_x ENGINE = MyISAM;
INSERT INTO c03_x VALUES (2, 'b');
ALTER TABLE c03_t ENGINE = InnoDB;
INSERT INTO c03_t VALUES (4, 'c');

-- case create_select
-- before
CREATE TABLE c04_s (id int PRIMARY KEY, v varchar(20), b bit(3), e enum('x','y'), u bigint unsigned);
INSERT INTO c04_s VALUES (1, 'a', b'101', 'x', 18446744073709551615), (2, 'b', b'1', 'y', 0);
-- during
CREATE TABLE c04_a AS SELECT * FROM c04_s;
CREATE TABLE c04_b (k int AUTO_INCREMENT PRIMARY KEY) SELECT id, v, u * 1.5 AS w, now(6) AS n FROM c04_s;
CREATE TABLE c04_c (PRIMARY KEY (id)) IGNORE SELECT id, v FROM c04_s UNION ALL SELECT id, 'dup' FROM c04_s;
CREATE TABLE c04_d (PRIMARY KEY (id)) REPLACE SELECT id, v FROM c04_s UNION ALL SELECT id, 'dup' FROM c04_s;
CREATE OR REPLACE TABLE c04_a AS SELECT 1 AS one;
CREATE TABLE IF NOT EXISTS c04_a AS SELECT 2 AS two;
CREATE TABLE c04_e LIKE c04_s;
INSERT INTO c04_e SELECT * FROM c04_s;
CREATE OR REPLACE TABLE c04_e LIKE c04_b;
INSERT INTO c04_e SELECT * FROM c04_b;
CREATE TABLE c04_empty AS SELECT * FROM c04_s WHERE 0;
INSERT INTO c04_empty SELECT * FROM c04_s;
? CREATE TABLE c04_fail (PRIMARY KEY (id)) SELECT id, v FROM c04_s UNION ALL SELECT id, 'dup' FROM c04_s;
BEGIN;
INSERT INTO c04_s (id) VALUES (3);
CREATE TEMPORARY TABLE c04_tmp AS SELECT * FROM c04_s;
INSERT INTO c04_s (id) SELECT id + 10 FROM c04_tmp;
ROLLBACK;
CREATE TABLE c04_f AS SELECT * FROM c04_tmp;

-- case load_data
-- before
CREATE TABLE c05_t (id int PRIMARY KEY, v varchar(200) CHARACTER SET latin1, d date);
-- during
SELECT 1, 'a\tb\\', '2026-01-01' UNION ALL SELECT 2, 'é', NULL INTO OUTFILE '{file}';
LOAD DATA INFILE '{file}' INTO TABLE c05_t;
LOAD DATA INFILE '{file}' REPLACE INTO TABLE c05_t (id, @v, d) SET v = upper(@v);
LOAD DATA INFILE '{file}' IGNORE INTO TABLE c05_t (id, @v, d) SET v = 'ign', id = id + 1;

-- case truncate
-- before
CREATE TABLE c06_t (id int AUTO_INCREMENT PRIMARY KEY, v varchar(20));
CREATE TABLE c06_u (id int PRIMARY KEY);
INSERT INTO c06_t (v) VALUES ('a'), ('b');
INSERT INTO c06_u VALUES (1);
-- during
INSERT INTO c06_t (v) VALUES ('c');
TRUNCATE c06_t;
INSERT INTO c06_t (v) VALUES ('d');
BEGIN;
INSERT INTO c06_t (v) VALUES ('e');
TRUNCATE TABLE c06_u;
INSERT INTO c06_u VALUES (2);
TRUNCATE TABLE c06_u WAIT 5;
INSERT INTO c06_u VALUES (3);
/* x */ TRUNCATE /* y */ `c06_t`;
INSERT INTO c06_t (v) VALUES ('f');

-- case gho
-- before
CREATE TABLE c07_t (id int PRIMARY KEY, v varchar(20), n int);
INSERT INTO c07_t SELECT seq, concat('v', seq), seq FROM seq_1_to_120;
-- during
CREATE /* gh-ost */ TABLE `_c07_t_gho` LIKE `c07_t`;
ALTER /* gh-ost */ TABLE `_c07_t_gho` ADD COLUMN w int NOT NULL DEFAULT 3, MODIFY n bigint, DROP COLUMN v;
INSERT /* gh-ost */ IGNORE INTO _c07_t_gho (id, n) (SELECT id, n FROM c07_t FORCE INDEX (PRIMARY) WHERE id <= 60 LOCK IN SHARE MODE);
UPDATE c07_t SET n = -n WHERE id % 10 = 0;
REPLACE /* gh-ost */ INTO _c07_t_gho (id, n) SELECT id, n FROM c07_t WHERE id % 10 = 0;
INSERT /* gh-ost */ IGNORE INTO _c07_t_gho (id, n) (SELECT id, n FROM c07_t WHERE id > 60);
CREATE TABLE `_c07_t_del` (id int auto_increment primary key) ENGINE = InnoDB COMMENT = 'ghost-cut-over-sentry';
LOCK TABLES c07_t WRITE, `_c07_t_del` WRITE;
DROP TABLE IF EXISTS `_c07_t_del`;
UNLOCK TABLES;
RENAME /* gh-ost */ TABLE c07_t TO `_c07_t_del`, `_c07_t_gho` TO c07_t;
UPDATE c07_t SET w = 9 WHERE id < 5;
DROP TABLE IF EXISTS `_c07_t_del`;

-- case ptosc
-- before
CREATE TABLE c08_t (id int PRIMARY KEY, v varchar(20), n int);
INSERT INTO c08_t SELECT seq, concat('v', seq), seq FROM seq_1_to_120;
-- during
CREATE TABLE `{db}`.`_c08_t_new` (id int PRIMARY KEY, v varchar(20), n int);
ALTER TABLE `{db}`.`_c08_t_new` ADD COLUMN w datetime DEFAULT CURRENT_TIMESTAMP, ADD KEY (n), RENAME COLUMN v TO vv;
CREATE TRIGGER pt_osc_del AFTER DELETE ON c08_t FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR 1146 begin end; DELETE IGNORE FROM _c08_t_new WHERE id <=> OLD.id; END;
CREATE TRIGGER pt_osc_upd AFTER UPDATE ON c08_t FOR EACH ROW BEGIN DELETE IGNORE FROM _c08_t_new WHERE !(OLD.id <=> NEW.id) AND id <=> OLD.id; REPLACE INTO _c08_t_new (id, vv, n) VALUES (NEW.id, NEW.v, NEW.n); END;
CREATE TRIGGER pt_osc_ins AFTER INSERT ON c08_t FOR EACH ROW REPLACE INTO _c08_t_new (id, vv, n) VALUES (NEW.id, NEW.v, NEW.n);
INSERT LOW_PRIORITY IGNORE INTO _c08_t_new (id, vv, n) SELECT id, v, n FROM c08_t WHERE id < 70 LOCK IN SHARE MODE;
UPDATE c08_t SET id = id + 1000, v = 'moved' WHERE id IN (3, 90);
DELETE FROM c08_t WHERE id IN (4, 91);
INSERT INTO c08_t VALUES (500, 'new', 1);
INSERT LOW_PRIORITY IGNORE INTO _c08_t_new (id, vv, n) SELECT id, v, n FROM c08_t WHERE id >= 70 LOCK IN SHARE MODE;
RENAME TABLE `{db}`.`c08_t` TO `{db}`.`_c08_t_old`, `{db}`.`_c08_t_new` TO `{db}`.`c08_t`;
DROP TABLE IF EXISTS `_c08_t_old`;
DROP TRIGGER IF EXISTS `{db}`.`pt_osc_del`;
INSERT INTO c08_t (id, vv, n) VALUES (501, 'x', 1);

-- case partitions
-- left out c09_t: partition
-- left out c09_u: partition
-- left out c09_x: partition
-- left out c09_y: exchanged
-- before
CREATE TABLE c09_t (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20));
CREATE TABLE c09_u (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20));
CREATE TABLE c09_x (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20));
CREATE TABLE c09_y (id int PRIMARY KEY, v int);
CREATE TABLE c09_z (id int PRIMARY KEY, v int) PARTITION BY HASH (id) PARTITIONS 4;
INSERT INTO c09_t VALUES (1, 1), (11, 1);
INSERT INTO c09_u VALUES (1, 1), (11, 1);
INSERT INTO c09_x VALUES (1, 1), (11, 1);
INSERT INTO c09_y VALUES (2, 2);
INSERT INTO c09_z VALUES (2, 2), (3, 3);
-- during
ALTER TABLE c09_t DROP PARTITION p0;
INSERT INTO c09_t VALUES (12, 1);
ALTER TABLE c09_u TRUNCATE PARTITION p0;
INSERT INTO c09_u VALUES (12, 1);
ALTER TABLE c09_x EXCHANGE PARTITION p0 WITH TABLE c09_y;
INSERT INTO c09_x VALUES (12, 1);
INSERT INTO c09_y VALUES (12, 1);
ALTER TABLE c09_z ADD PARTITION PARTITIONS 2;
ALTER TABLE c09_z COALESCE PARTITION 1;
INSERT INTO c09_z VALUES (12, 1);
ALTER TABLE c09_z REORGANIZE PARTITION;
ALTER TABLE c09_z REMOVE PARTITIONING;
INSERT INTO c09_z VALUES (13, 1);
ALTER TABLE c09_z PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE);
INSERT INTO c09_z VALUES (14, 1);
ALTER TABLE c09_z REORGANIZE PARTITION p0, p1 INTO (PARTITION n0 VALUES LESS THAN (100), PARTITION n1 VALUES LESS THAN MAXVALUE);
INSERT INTO c09_z VALUES (15, 1);

-- case partition_convert
-- left out c10_new: absent
-- left out c10_t: partition
-- before
CREATE TABLE c10_t (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20));
INSERT INTO c10_t VALUES (1, 1), (11, 1);
-- during
ALTER TABLE c10_t CONVERT PARTITION p0 TO TABLE c10_new;
INSERT INTO c10_t VALUES (12, 1);
INSERT INTO c10_new VALUES (3, 1);

-- case temporary
-- left out c11_t: absent
-- before
CREATE TABLE c11_t (id int PRIMARY KEY, v varchar(20));
INSERT INTO c11_t VALUES (1, 'a');
-- during
CREATE TEMPORARY TABLE c11_t (id int PRIMARY KEY, v varchar(20));
INSERT INTO c11_t VALUES (1, 'temporary');
ALTER TABLE c11_t ADD z int;
TRUNCATE c11_t;
RENAME TABLE c11_t TO c11_t2;
INSERT INTO c11_t VALUES (2, 'real');
DROP TEMPORARY TABLE c11_t2;
CREATE TEMPORARY TABLE c11_t AS SELECT 1 AS a;
DROP TABLE c11_t;
INSERT INTO c11_t VALUES (3, 'real');
CREATE TEMPORARY TABLE c11_u (a int);
CREATE TABLE c11_u (a int PRIMARY KEY);
@b INSERT INTO c11_u VALUES (1);
ALTER TABLE c11_u ADD b int;
TRUNCATE TABLE c11_u;
DROP TABLE c11_u;
@b INSERT INTO c11_u VALUES (2);
CREATE TEMPORARY TABLE c11_w LIKE c11_t;
CREATE TABLE c11_v SELECT * FROM c11_t;

-- case image
-- left out c12_t: binlog_row_image
-- before
CREATE TABLE c12_t (id int PRIMARY KEY, v varchar(20), b blob);
CREATE TABLE c12_u (id int PRIMARY KEY, v varchar(20), b blob);
INSERT INTO c12_t VALUES (1, 'a', 'b');
INSERT INTO c12_u VALUES (1, 'a', 'b');
-- during
SET SESSION binlog_row_image = MINIMAL;
UPDATE c12_t SET v = 'm';
INSERT INTO c12_u VALUES (2, 'b', 'c');
SET SESSION binlog_row_image = NOBLOB;
INSERT INTO c12_u VALUES (3, 'b', 'c');
SET SESSION binlog_row_image = FULL;
UPDATE c12_u SET v = 'full';

-- case compressed
-- before
CREATE TABLE c13_t (id int PRIMARY KEY, v text, b varchar(3000) COMPRESSED, t text COMPRESSED CHARACTER SET latin1);
INSERT INTO c13_t VALUES (1, repeat('é', 500), repeat('z', 2000), repeat('ü', 300));
-- during
SET GLOBAL log_bin_compress = 1;
INSERT INTO c13_t VALUES (2, repeat('x', 5000), repeat('y', 2000), repeat('ü', 300));
UPDATE c13_t SET v = concat(v, 'u'), b = '', t = 'ä';
ALTER TABLE c13_t ADD COLUMN a_very_long_name_that_is_longer_than_others varchar(300) DEFAULT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa';
DELETE FROM c13_t WHERE id = 1;
SET GLOBAL log_bin_compress = 0;

-- case alter_many
-- before
CREATE TABLE c14_t (id int PRIMARY KEY, a int, b varchar(20), c date, d decimal(8,2));
INSERT INTO c14_t VALUES (1, 1, 'b', '2026-01-01', 1.5), (2, 2, 'bb', NULL, NULL);
-- during
ALTER TABLE c14_t ADD COLUMN z int DEFAULT 5 FIRST, DROP COLUMN c, CHANGE a aa bigint AFTER d, RENAME COLUMN b TO bbb, ADD e varchar(10) DEFAULT 'é' AFTER id, ALGORITHM = COPY;
INSERT INTO c14_t (id) VALUES (3);
ALTER TABLE c14_t MODIFY COLUMN z int FIRST, MODIFY COLUMN id int AFTER z, ALGORITHM = INSTANT;
UPDATE c14_t SET z = id;
ALTER TABLE c14_t RENAME COLUMN z TO aa, RENAME COLUMN aa TO z;
ALTER TABLE c14_t CHANGE aa AA int AFTER id;

-- case alter_swap
-- before
CREATE TABLE c15_t (id int PRIMARY KEY, a int, b int);
INSERT INTO c15_t VALUES (1, 1, 2), (2, 3, 4);
-- during
ALTER TABLE c15_t CHANGE a b int, CHANGE b a int;
INSERT INTO c15_t (id, a, b) VALUES (3, 5, 6);
ALTER TABLE c15_t RENAME COLUMN a TO b, RENAME COLUMN b TO a;
UPDATE c15_t SET a = a + 100;
ALTER TABLE c15_t DROP a, CHANGE b a int;
INSERT INTO c15_t VALUES (4, 7);

-- case alter_swap_without_rows
-- before
CREATE TABLE c16_t (id int PRIMARY KEY, a int, b int);
INSERT INTO c16_t VALUES (1, 1, 2), (2, 3, 4);
-- during
ALTER TABLE c16_t CHANGE a b int, CHANGE b a int;
ALTER TABLE c16_t DROP a, CHANGE b a int;
ALTER TABLE c16_t ADD b int DEFAULT 7;

-- case add_and_drop_again
-- before
CREATE TABLE c17_t (id int PRIMARY KEY, c int);
INSERT INTO c17_t VALUES (1, 1), (2, 3);
-- during
ALTER TABLE c17_t DROP c;
ALTER TABLE c17_t ADD c int DEFAULT 9;
INSERT INTO c17_t VALUES (4, 7);

-- case add_and_drop_in_one
-- before
CREATE TABLE c18_t (id int PRIMARY KEY, c int);
INSERT INTO c18_t VALUES (1, 1), (2, 3);
-- during
ALTER TABLE c18_t DROP c, ADD c int DEFAULT 9;
INSERT INTO c18_t VALUES (4, 7);

-- case types_changed
-- left out c19_b: converted
-- left out c19_d: converted
-- left out c19_e: labels
-- before
CREATE TABLE c19_a (id int PRIMARY KEY, c int);
CREATE TABLE c19_b (id int PRIMARY KEY, c int);
CREATE TABLE c19_c (id int PRIMARY KEY, c varchar(20) CHARACTER SET latin1);
CREATE TABLE c19_d (id int PRIMARY KEY, c datetime(6));
CREATE TABLE c19_e (id int PRIMARY KEY, c enum('x', 'y'));
INSERT INTO c19_a VALUES (1, 1);
INSERT INTO c19_b VALUES (1, 1);
INSERT INTO c19_c VALUES (1, 'é');
INSERT INTO c19_d VALUES (1, '2026-01-01 00:00:00.123456');
INSERT INTO c19_e VALUES (1, 'x');
-- during
ALTER TABLE c19_a MODIFY c bigint unsigned;
INSERT INTO c19_a VALUES (2, 18446744073709551615);
ALTER TABLE c19_b MODIFY c varchar(20);
INSERT INTO c19_b VALUES (2, 'x');
ALTER TABLE c19_c CONVERT TO CHARACTER SET utf8mb4;
INSERT INTO c19_c VALUES (2, '😀');
ALTER TABLE c19_d MODIFY c datetime(0);
INSERT INTO c19_d VALUES (2, '2026-01-01');
ALTER TABLE c19_e MODIFY c enum('y', 'x', 'z');
INSERT INTO c19_e VALUES (2, 'x'), (3, 'z');

-- case invisible_and_virtual
-- before
CREATE TABLE c20_t (id int PRIMARY KEY, a int, h int INVISIBLE DEFAULT 5, v int AS (a + 1) VIRTUAL, s varchar(20) AS (concat('s', a)) STORED);
INSERT INTO c20_t (id, a) VALUES (1, 1);
-- during
INSERT INTO c20_t (id, a) VALUES (2, 2);
INSERT INTO c20_t (id, a, h) VALUES (3, 2, 9);
ALTER TABLE c20_t ADD g int AS (a * 2) VIRTUAL AFTER id, ADD hid int INVISIBLE NOT NULL DEFAULT 8;
UPDATE c20_t SET a = a + 1;
ALTER TABLE c20_t DROP COLUMN v, MODIFY h int;
UPDATE c20_t SET h = h + 1;
INSERT INTO c20_t (id, a, h) VALUES (4, 2, 9);

-- case stored_becomes_plain
-- left out c21_t: s
-- before
CREATE TABLE c21_t (id int PRIMARY KEY, a int, s int AS (a + 1) STORED);
INSERT INTO c21_t (id, a) VALUES (1, 1);
-- during
ALTER TABLE c21_t MODIFY s int;
INSERT INTO c21_t (id, a, s) VALUES (2, 2, 2);

-- case versioned
-- left out c22_t: history
-- left out c22_u: history
-- before
CREATE TABLE c22_u (id int PRIMARY KEY, a int);
INSERT INTO c22_u VALUES (1, 1);
-- during
CREATE TABLE c22_t (id int PRIMARY KEY, a int) WITH SYSTEM VERSIONING;
INSERT INTO c22_t VALUES (1, 1);
UPDATE c22_t SET a = 2;
ALTER TABLE c22_u ADD SYSTEM VERSIONING;
UPDATE c22_u SET a = 2;
INSERT INTO c22_u VALUES (2, 2);

-- case sequences
-- before
CREATE SEQUENCE c23_s;
CREATE TABLE c23_t (id int PRIMARY KEY DEFAULT NEXT VALUE FOR c23_s, v int);
INSERT INTO c23_t (v) VALUES (1);
-- during
INSERT INTO c23_t (v) VALUES (2), (3);
ALTER SEQUENCE c23_s RESTART 100;
INSERT INTO c23_t (v) VALUES (4);
CREATE OR REPLACE SEQUENCE c23_s START 500;
SELECT SETVAL(c23_s, 700);
INSERT INTO c23_t (v) VALUES (5);
CREATE SEQUENCE c23_q;
SELECT NEXTVAL(c23_q);
RENAME TABLE c23_q TO c23_r;
SELECT NEXTVAL(c23_r);
DROP SEQUENCE c23_r;
CREATE TABLE c23_r (id int PRIMARY KEY);
INSERT INTO c23_r VALUES (1);

-- case auto_increment
-- before
CREATE TABLE c24_t (id int AUTO_INCREMENT PRIMARY KEY, v int, u timestamp NULL ON UPDATE CURRENT_TIMESTAMP);
CREATE TABLE c24_k (v int);
INSERT INTO c24_t (v) VALUES (1), (2);
INSERT INTO c24_k VALUES (1), (2);
-- during
ALTER TABLE c24_t AUTO_INCREMENT = 1000;
INSERT INTO c24_t (v) VALUES (3);
UPDATE c24_t SET v = v + 1;
SET SESSION auto_increment_increment = 10, auto_increment_offset = 3;
INSERT INTO c24_t (v) VALUES (3), (4);
SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
INSERT INTO c24_t (id, v) VALUES (0, 4);
SET SESSION sql_mode = DEFAULT;
INSERT INTO c24_k VALUES (3);
UPDATE c24_k SET v = 7 WHERE v = 1;
DELETE FROM c24_k WHERE v = 2;

-- case values
-- before
CREATE TABLE c25_t (id int PRIMARY KEY, t time(3), b bit(64), s set('a','b','c d'), u bigint unsigned, d decimal(65,30), j json, y year, f float, e enum('a,b','it''s','ü'));
INSERT INTO c25_t VALUES (1, '-838:59:59', b'1', 'a,c d', 18446744073709551615, -12345678901234567890123456789012345.123456789012345678901234567891, '{"a": [1, 2, {"ü": null}]}', 0, 0.1, 'it''s');
-- during
INSERT INTO c25_t VALUES (2, '838:59:59.999', ~0, '', 0, 99999999999999999999999999999999999.999999999999999999999999999999, '"\\u0041"', 2155, -0.0, 'a,b');
INSERT INTO c25_t VALUES (3, '00:00:00.001', 0, 'a,b,c d', 9223372036854775808, 0.000000000000000000000000000001, 'null', 1901, 3.4e38, 'ü');
UPDATE c25_t SET t = '100:00:00', u = u - 1 WHERE id = 1;
SET sql_mode = '';
INSERT INTO c25_t (id, e, y, s) VALUES (4, 'none', 1800, 'zz');
UPDATE c25_t SET e = 'none' WHERE id = 3;

-- case zero_dates
-- left out c26_t: 0000-00-00
-- before
CREATE TABLE c26_t (id int PRIMARY KEY, d date, dt datetime, ts timestamp NULL);
CREATE TABLE c26_ok (id int PRIMARY KEY);
INSERT INTO c26_t VALUES (1, '2026-01-01', '2026-01-01', '2026-01-01');
-- during
SET sql_mode = '';
INSERT INTO c26_t VALUES (2, '0000-00-00', '0000-00-00', '0000-00-00');
INSERT INTO c26_t VALUES (3, '2026-00-00', '2026-02-00', '2026-01-02');
UPDATE c26_t SET d = '0000-00-00' WHERE id = 1;
INSERT INTO c26_ok VALUES (1);

-- case charsets
-- left out c27_t: sjis
-- before
CREATE TABLE c27_t (id int PRIMARY KEY, a varchar(20) CHARACTER SET latin1, b varchar(20) CHARACTER SET utf8mb3, c text CHARACTER SET ucs2, d char(5) CHARACTER SET utf16le, e varbinary(10), f binary(5), g char(10) CHARACTER SET cp1251);
INSERT INTO c27_t VALUES (1, '€é', 'ß', 'ü', 'x', 'a\0', 'b', 'бя');
-- during
INSERT INTO c27_t VALUES (2, ' t ', 'tr  ', '', '  ', '', '', '  ');
INSERT INTO c27_t VALUES (3, NULL, '\n\t\\', '漢', '😀', x'ff00', x'0000', '€');
UPDATE c27_t SET a = concat(a, '!'), f = x'0100000000';
ALTER TABLE c27_t ADD h varchar(10) CHARACTER SET sjis;
INSERT INTO c27_t (id, h) VALUES (4, 'ソ');

-- case text_keys
-- before
CREATE TABLE c28_t (k varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v int);
CREATE TABLE c28_u (k char(20) COLLATE utf8mb4_general_ci, l int, v int, PRIMARY KEY (k, l));
CREATE TABLE c28_p (k text, v int, PRIMARY KEY (k(5)));
CREATE TABLE c28_n (k varchar(20) COLLATE utf8mb4_nopad_bin PRIMARY KEY, v int);
INSERT INTO c28_t VALUES ('a', 1), ('B ', 2), ('ß', 3), ('é', 4);
INSERT INTO c28_u VALUES ('a', 1, 1), ('A', 2, 2), ('a ', 3, 3);
INSERT INTO c28_p VALUES ('aaaaaaa', 1), ('b', 2);
INSERT INTO c28_n VALUES ('a', 1), ('a ', 2), ('A', 3);
-- during
UPDATE c28_t SET k = 'A' WHERE k = 'a';
UPDATE c28_t SET k = 'b' WHERE k = 'B';
INSERT INTO c28_t VALUES ('e', 5) ON DUPLICATE KEY UPDATE v = 50;
REPLACE INTO c28_t VALUES ('É ', 6);
DELETE FROM c28_t WHERE k = 'a   ';
INSERT INTO c28_t VALUES ('a ', 7);
UPDATE c28_u SET k = upper(k), l = l + 10;
UPDATE c28_u SET k = concat(k, 'x ') WHERE k = 'A';
UPDATE c28_p SET k = 'aaaaabb', v = 3 WHERE v = 1;
DELETE FROM c28_p WHERE v = 2;
UPDATE c28_n SET k = 'b ' WHERE k = 'a ';
INSERT INTO c28_n VALUES ('b', 9);

-- case unique_ci
-- before
CREATE TABLE c29_t (id int PRIMARY KEY, v varchar(20) COLLATE utf8mb4_general_ci, UNIQUE (v));
INSERT INTO c29_t VALUES (1, 'a'), (2, 'b');
-- during
BEGIN;
DELETE FROM c29_t WHERE id = 1;
INSERT INTO c29_t VALUES (3, 'A ');
UPDATE c29_t SET v = 'x' WHERE id = 2;
UPDATE c29_t SET v = 'B' WHERE id = 3;
UPDATE c29_t SET v = 'a' WHERE id = 2;
COMMIT;

-- case cascades
-- left out c30_n: CASCADE
-- left out c30_b: SET NULL
-- before
CREATE TABLE c30_p (id int PRIMARY KEY);
CREATE TABLE c30_c (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES c30_p (id));
CREATE TABLE c30_b (id int PRIMARY KEY, p int);
INSERT INTO c30_p VALUES (1), (2);
INSERT INTO c30_c VALUES (1, 1);
INSERT INTO c30_b VALUES (1, 2);
-- during
CREATE TABLE c30_n (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES c30_p (id) ON DELETE CASCADE);
INSERT INTO c30_n VALUES (1, 2);
ALTER TABLE c30_b ADD CONSTRAINT cc FOREIGN KEY (p) REFERENCES c30_p (id) ON DELETE SET NULL;
DELETE FROM c30_p WHERE id = 2;
SET foreign_key_checks = 0;
INSERT INTO c30_c VALUES (2, 77);
SET foreign_key_checks = 1;
INSERT INTO c30_p VALUES (9);
ALTER TABLE c30_b DROP FOREIGN KEY cc;
ALTER TABLE c30_n DROP FOREIGN KEY c30_n_ibfk_1;

-- case names
-- before
CREATE TABLE `c31 we``ird."x'` (`id ``"` int PRIMARY KEY, `a.b` int, `select` varchar(10), `UPPER` int, `%s {{0}}` int, `ü€` int);
CREATE TABLE `C31_Upper` (ID int PRIMARY KEY, `Sel` int);
CREATE TABLE `c31_upper` (id int PRIMARY KEY, `other` int);
CREATE TABLE `c31_order` (`key` int PRIMARY KEY, `group` int, `desc` int, `user` int, `offset` int);
INSERT INTO `c31 we``ird."x'` VALUES (1, 2, 'a', 3, 4, 5);
INSERT INTO `C31_Upper` VALUES (1, 1);
INSERT INTO `c31_upper` VALUES (1, 2);
INSERT INTO `c31_order` VALUES (1, 2, 3, 4, 5);
-- during
UPDATE `c31 we``ird."x'` SET `a.b` = 7, `%s {{0}}` = 8, `ü€` = 9;
ALTER TABLE `c31 we``ird."x'` ADD `new ``col"'` int DEFAULT 5, RENAME COLUMN `a.b` TO `b.a`;
INSERT INTO `c31 we``ird."x'` VALUES (2, 2, 'a', 3, 4, 5, 6);
INSERT INTO `C31_Upper` VALUES (2, 1);
ALTER TABLE `c31_upper` RENAME COLUMN `OTHER` TO `Other2`;
INSERT INTO `c31_upper` VALUES (2, 1);
UPDATE `c31_order` SET `group` = 8;
RENAME TABLE `c31 we``ird."x'` TO `c31.t`;
INSERT INTO `c31.t` VALUES (3, 2, 'a', 3, 4, 5, 6);

-- case key_changes
-- left out c32_w: expected the value free
-- before
CREATE TABLE c32_t (id int PRIMARY KEY, a int NOT NULL, b varchar(20));
CREATE TABLE c32_u (a int, b int);
CREATE TABLE c32_w (a int NOT NULL, b int, UNIQUE (a));
INSERT INTO c32_t VALUES (1, 10, 'x'), (2, 20, 'y');
INSERT INTO c32_u VALUES (1, 10), (1, 10), (2, 3);
INSERT INTO c32_w VALUES (1, 10), (2, 3);
-- during
UPDATE c32_t SET id = 3 - id ORDER BY id DESC LIMIT 0;
UPDATE c32_t SET id = -id;
ALTER TABLE c32_t DROP PRIMARY KEY, ADD PRIMARY KEY (a);
UPDATE c32_t SET a = a + 1, b = 'z' WHERE id = -1;
ALTER TABLE c32_t DROP PRIMARY KEY;
DELETE FROM c32_t WHERE id = -2;
INSERT INTO c32_t VALUES (5, 5, 'q'), (5, 5, 'q');
DELETE FROM c32_u WHERE a = 1 LIMIT 1;
ALTER TABLE c32_u ADD PRIMARY KEY (a, b);
UPDATE c32_u SET b = b + 1;
ALTER TABLE c32_w DROP INDEX a;
INSERT INTO c32_w VALUES (1, 10);
UPDATE c32_w SET b = 11 LIMIT 1;
ALTER TABLE c32_w ADD id int;
UPDATE c32_w SET b = 12 LIMIT 1;

-- case auto_key_added
-- left out c33_t: own numbers
-- before
CREATE TABLE c33_t (a int);
INSERT INTO c33_t VALUES (1), (1), (2);
-- during
ALTER TABLE c33_t ADD id int AUTO_INCREMENT PRIMARY KEY FIRST;
INSERT INTO c33_t (a) VALUES (4);

-- case across_databases
-- before
CREATE DATABASE {db}_x;
GRANT SELECT, REFERENCES ON `{db}_x`.* TO sluice_reader@'%';
CREATE TABLE {db}_x.c34_t (id int PRIMARY KEY, v int);
CREATE TABLE c34_u (id int PRIMARY KEY, v int);
INSERT INTO {db}_x.c34_t VALUES (1, 1);
INSERT INTO c34_u VALUES (1, 1);
-- during
RENAME TABLE c34_u TO {db}_x.c34_u;
INSERT INTO {db}_x.c34_u VALUES (2, 2);
RENAME TABLE {db}_x.c34_t TO c34_t;
INSERT INTO c34_t VALUES (2, 2);
USE {db}_x;
CREATE TABLE c34_w (id int PRIMARY KEY);
INSERT INTO c34_w VALUES (1);
CREATE TABLE {db}.c34_v (id int PRIMARY KEY);
INSERT INTO {db}.c34_v VALUES (1);
ALTER TABLE c34_w RENAME {db}.c34_w;
INSERT INTO {db}.c34_w VALUES (2);

-- case database_again
-- before
CREATE DATABASE {db}_y;
GRANT SELECT, REFERENCES ON `{db}_y`.* TO sluice_reader@'%';
CREATE TABLE {db}_y.c35_t (id int PRIMARY KEY, v int);
CREATE TABLE {db}_y.c35_u (id int PRIMARY KEY, v int);
INSERT INTO {db}_y.c35_t VALUES (1, 1);
INSERT INTO {db}_y.c35_u VALUES (1, 1);
-- during
DROP DATABASE {db}_y;
CREATE DATABASE {db}_y;
CREATE TABLE {db}_y.c35_t (id int PRIMARY KEY, w varchar(9));
INSERT INTO {db}_y.c35_t VALUES (5, 'new');

-- case sql_log_bin
-- left out c36_t: without a statement
-- before
CREATE TABLE c36_t (id int PRIMARY KEY, v int);
INSERT INTO c36_t VALUES (1, 1);
-- during
SET sql_log_bin = 0;
ALTER TABLE c36_t ADD w int DEFAULT 4;
SET sql_log_bin = 1;
INSERT INTO c36_t VALUES (3, 3, 3);

-- case rotation
-- before
CREATE TABLE c37_t (id int PRIMARY KEY, v int);
-- during
INSERT INTO c37_t VALUES (1, 1);
FLUSH BINARY LOGS;
INSERT INTO c37_t VALUES (2, 1);
FLUSH LOGS;
FLUSH BINARY LOGS DELETE_DOMAIN_ID = (99);
INSERT INTO c37_t VALUES (3, 1);

-- case multi
-- before
CREATE TABLE c38_a (id int PRIMARY KEY, v int);
CREATE TABLE c38_b (id int PRIMARY KEY, v int);
INSERT INTO c38_a VALUES (1, 1), (2, 2);
INSERT INTO c38_b VALUES (1, 1), (3, 3);
-- during
UPDATE c38_a, c38_b SET c38_a.v = 9, c38_b.v = 8 WHERE c38_a.id = c38_b.id;
DELETE c38_a, c38_b FROM c38_a JOIN c38_b USING (id);
INSERT INTO c38_a VALUES (2, 5), (7, 7) ON DUPLICATE KEY UPDATE v = VALUES(v), id = id + 100;
INSERT INTO c38_b SELECT * FROM c38_a RETURNING id;
CREATE FUNCTION c38_f(x int) RETURNS int MODIFIES SQL DATA DETERMINISTIC BEGIN INSERT INTO c38_a VALUES (x, x); RETURN x; END;
SELECT c38_f(50), c38_f(51);
CREATE PROCEDURE c38_p() BEGIN INSERT INTO c38_a VALUES (60, 1); TRUNCATE c38_b; INSERT INTO c38_b VALUES (61, 1); END;
CALL c38_p();
EXECUTE IMMEDIATE 'ALTER TABLE c38_b ADD z int DEFAULT 1';
INSERT INTO c38_b VALUES (62, 1, 1);
BEGIN NOT ATOMIC INSERT INTO c38_a VALUES (70, 1); ALTER TABLE c38_a ADD z int DEFAULT 2; INSERT INTO c38_a VALUES (71, 1, 3); END;

-- case odd_ddl
-- before
CREATE TABLE c39_t (id int PRIMARY KEY, n varchar(20), KEY (n));
INSERT INTO c39_t VALUES (1, 'a');
-- during
ALTER TABLE c39_t page_compressed=1;
ALTER TABLE c39_t CHANGE n n VARCHAR(32) NOT NULL DEFAULT _utf8mb4'' COMMENT 'a;b';
INSERT INTO c39_t VALUES (2, 'b');
ALTER TABLE c39_t RENAME KEY n TO m;
ALTER TABLE c39_t ALTER INDEX m IGNORED;
ALTER TABLE c39_t ADD CONSTRAINT ck CHECK (id > 0), ADD CONSTRAINT uq UNIQUE KEY (id, n), ADD INDEX IF NOT EXISTS x (n(3)), COMMENT 'c' MAX_ROWS=5;
ALTER TABLE c39_t ALTER COLUMN n SET DEFAULT 'q';
ALTER TABLE c39_t ALTER n DROP DEFAULT;
ALTER TABLE c39_t ENCRYPTED=NO;
? ALTER TABLE c39_t ENCRYPTION_KEY_ID=1;
ALTER TABLE c39_t FORCE, LOCK=SHARED;
ALTER TABLE c39_t ROW_FORMAT=DYNAMIC, KEY_BLOCK_SIZE=0;
ALTER TABLE c39_t ADD COLUMN IF NOT EXISTS (p int DEFAULT -5, q decimal(5,2) DEFAULT -1.25, r varchar(20) DEFAULT 'it''s');
ALTER ONLINE TABLE IF EXISTS c39_t WAIT 3 ADD COLUMN u tinyint(1) NOT NULL DEFAULT TRUE;
INSERT INTO c39_t (id, n) VALUES (3, 'c');
SET sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES';
ALTER TABLE "c39_t" ADD "w x" int DEFAULT 8;
SET sql_mode = DEFAULT;
INSERT INTO c39_t (id, n) VALUES (4, 'c');
CREATE /*!50000 OR REPLACE */ /* x */ TABLE c39_u (c INT PRIMARY KEY);
INSERT INTO c39_u VALUES (1);
/*!50003 ALTER TABLE c39_u ADD d int DEFAULT 6 */;
INSERT INTO c39_u VALUES (2, 2);
/*M!100100 ALTER TABLE c39_u ADD e int DEFAULT 6 */;
INSERT INTO c39_u VALUES (3, 2, 2);
SET STATEMENT max_statement_time = 100 FOR TRUNCATE c39_u;
INSERT INTO c39_u VALUES (4, 2, 2);
CREATE INDEX ix ON c39_u (d);
DROP INDEX ix ON c39_u;

-- case fill_values
-- before
CREATE TABLE c40_t (id int PRIMARY KEY);
INSERT INTO c40_t VALUES (1), (2);
-- during
ALTER TABLE c40_t ADD a int NOT NULL, ADD b varchar(5) NOT NULL, ADD c char(3) DEFAULT 'x', ADD d decimal(10,3) DEFAULT 1.5, ADD e bigint unsigned DEFAULT 18446744073709551615;
INSERT INTO c40_t (id, a, b) VALUES (3, 1, 'x');
ALTER TABLE c40_t ADD f int DEFAULT '7', ADD g tinyint(1) DEFAULT false;
INSERT INTO c40_t (id, a, b) VALUES (4, 1, 'x');

-- case two_phase
-- before
CREATE TABLE c42_t (id int PRIMARY KEY, v int);
INSERT INTO c42_t VALUES (1, 1), (2, 1);
-- during
SET SESSION binlog_alter_two_phase = 1;
ALTER TABLE c42_t ADD w int DEFAULT 4;
INSERT INTO c42_t VALUES (3, 3, 3);
? ALTER TABLE c42_t ADD UNIQUE (v), ADD zz int;
? ALTER TABLE c42_t ADD zz int, ADD UNIQUE (w, v);
UPDATE c42_t SET v = id;
ALTER TABLE c42_t ADD UNIQUE (v);
INSERT INTO c42_t VALUES (4, 4, 4);

-- case virtual_key
-- before
CREATE TABLE c43_t (a int NOT NULL, g int AS (a + 1) STORED, v varchar(9), UNIQUE (g));
CREATE TABLE c43_u (a int NOT NULL, g int AS (a + 1) VIRTUAL, v varchar(9), UNIQUE (g), UNIQUE (a));
INSERT INTO c43_t (a, v) VALUES (1, 'a'), (2, 'b');
INSERT INTO c43_u (a, v) VALUES (1, 'a'), (2, 'b');
-- during
UPDATE c43_t SET v = 'c' WHERE a = 1;
UPDATE c43_t SET a = 9 WHERE a = 2;
DELETE FROM c43_t WHERE a = 1;
UPDATE c43_u SET v = 'c' WHERE a = 1;
UPDATE c43_u SET a = 9 WHERE a = 2;
DELETE FROM c43_u WHERE a = 1;
INSERT INTO c43_t (a, v) VALUES (100, 'x');

-- case strict
-- left out c44_t: strict
-- before
CREATE TABLE c44_t (id int PRIMARY KEY, v varchar(20), n int);
INSERT INTO c44_t VALUES (1, 'abcdef', 70000);
-- during
SET sql_mode = '';
ALTER TABLE c44_t MODIFY v varchar(3), MODIFY n smallint;
INSERT INTO c44_t VALUES (2, 'a', 1);

-- case spatial
-- left out c45_t: spatial
-- left out c45_u: spatial
-- before
CREATE TABLE c45_u (id int PRIMARY KEY);
INSERT INTO c45_u VALUES (1);
-- during
CREATE TABLE c45_t (id int PRIMARY KEY, p point);
INSERT INTO c45_t VALUES (1, point(1, 2));
ALTER TABLE c45_u ADD p point;
INSERT INTO c45_u VALUES (2, point(1, 2));

-- case rename_back
-- before
CREATE TABLE c46_t (id int PRIMARY KEY, v int);
CREATE TABLE c46_u (id int PRIMARY KEY, w varchar(9));
INSERT INTO c46_t VALUES (1, 1);
INSERT INTO c46_u VALUES (5, 'u');
-- during
RENAME TABLE c46_t TO c46_x, c46_u TO c46_t, c46_x TO c46_u;
INSERT INTO c46_t VALUES (6, 't');
INSERT INTO c46_u VALUES (7, 7);
RENAME TABLE IF EXISTS c46_t NOWAIT TO c46_q, c46_nothing TO c46_nix;
INSERT INTO c46_q VALUES (8, 'q');
CREATE TABLE c46_t (id int PRIMARY KEY);
INSERT INTO c46_t VALUES (1);
DROP TABLE c46_t, c46_q;
CREATE TABLE c46_q (z varchar(9) PRIMARY KEY);
INSERT INTO c46_q VALUES ('z');

-- case views
-- before
CREATE TABLE c47_t (id int PRIMARY KEY, v int);
INSERT INTO c47_t VALUES (1, 1);
CREATE VIEW c47_v AS SELECT * FROM c47_t;
-- during
INSERT INTO c47_v VALUES (2, 2);
RENAME TABLE c47_v TO c47_w;
ALTER VIEW c47_w AS SELECT id FROM c47_t;
DROP VIEW c47_w;
CREATE TABLE c47_v (id int PRIMARY KEY);
INSERT INTO c47_v VALUES (1);
CREATE EVENT c47_e ON SCHEDULE EVERY 1 DAY DO DELETE FROM c47_t;
DROP EVENT c47_e;

-- case period
-- before
CREATE TABLE c48_t (id int, s date, e date, PERIOD FOR p (s, e));
INSERT INTO c48_t VALUES (1, '2026-01-01', '2026-12-31');
-- during
DELETE FROM c48_t FOR PORTION OF p FROM '2026-03-01' TO '2026-04-01';
UPDATE c48_t FOR PORTION OF p FROM '2026-06-01' TO '2026-07-01' SET id = 5;

-- case nopk_unique_null
-- before
CREATE TABLE c49_t (a int, b varchar(5), UNIQUE (a));
CREATE TABLE c49_f (a float, b double, c text, d blob, e json);
INSERT INTO c49_t VALUES (NULL, 'x'), (NULL, 'x'), (1, 'y');
INSERT INTO c49_f VALUES (0.1, 0.1, 'é ', x'00', '{}'), (0.1, 0.1, 'é ', x'00', '{}');
-- during
DELETE FROM c49_t WHERE b = 'x' LIMIT 1;
UPDATE c49_t SET b = 'X' WHERE b = 'x';
UPDATE c49_t SET b = 'z' WHERE a = 1;
DELETE FROM c49_f LIMIT 1;
UPDATE c49_f SET a = 0.2, c = NULL;

-- case not_null_fill
-- before
CREATE TABLE c50_t (id int PRIMARY KEY, a int, v varchar(9));
INSERT INTO c50_t VALUES (1, NULL, NULL), (2, 2, 'x');
-- during
UPDATE c50_t SET a = 0, v = '' WHERE id = 1;
ALTER TABLE c50_t MODIFY a int NOT NULL, MODIFY v varchar(9) NOT NULL DEFAULT 'q';
INSERT INTO c50_t VALUES (3, 3, 'z');
ALTER TABLE c50_t MODIFY a int NULL;
INSERT INTO c50_t (id, a) VALUES (4, NULL);

-- case large
-- before
CREATE TABLE c51_t (id int PRIMARY KEY, v longtext);
-- during
INSERT INTO c51_t VALUES (1, repeat('é', 9000000));
UPDATE c51_t SET v = concat(v, 'x');
INSERT INTO c51_t SELECT seq, 'x' FROM seq_2_to_3000;

-- case domains
-- before
CREATE TABLE c52_t (id int PRIMARY KEY, v int);
-- during
SET SESSION gtid_domain_id = 7;
INSERT INTO c52_t VALUES (1, 1);
ALTER TABLE c52_t ADD w int DEFAULT 2;
SET SESSION gtid_domain_id = 0;
INSERT INTO c52_t VALUES (2, 1, 1);
SET SESSION server_id = 999;
UPDATE c52_t SET v = 7;
SET SESSION server_id = DEFAULT;
SET timestamp = 1;
INSERT INTO c52_t VALUES (3, 1, 1);
SET timestamp = DEFAULT;

-- case wide
-- during
CREATE TABLE c53_w ({wide});
INSERT INTO c53_w (id) VALUES (1);
UPDATE c53_w SET c300 = 5, c7 = NULL;

-- case json_check
-- before
CREATE TABLE c54_t (id int PRIMARY KEY, j json, k varchar(100));
INSERT INTO c54_t VALUES (1, '{"b":1,  "a":[1.0, 1e2]}', '{}');
-- during
UPDATE c54_t SET j = JSON_SET(j, '$.c', 'é\n');
ALTER TABLE c54_t MODIFY k json, ADD l json DEFAULT '{}';
INSERT INTO c54_t VALUES (2, '[]', '1', '2');

-- case uuid_inet
-- before
CREATE TABLE c55_t (id uuid PRIMARY KEY, a inet6, b inet4, c binary(16));
INSERT INTO c55_t VALUES ('123e4567-e89b-12d3-a456-426655440000', '::', '0.0.0.0', x'00');
-- during
INSERT INTO c55_t VALUES ('00000000-0000-0000-0000-000000000000', '::ffff:1.2.3.4', '10.0.0.1', x'0100');
UPDATE c55_t SET a = 'fe80::1:0', b = NULL;
ALTER TABLE c55_t ADD d uuid;
DELETE FROM c55_t WHERE id = '00000000-0000-0000-0000-000000000000';
INSERT INTO c55_t (id, d) VALUES ('ffffffff-ffff-ffff-ffff-ffffffffff00', '123e4567-e89b-12d3-a456-426655440000');

-- case modified
-- left out c56_a: column
-- left out c56_b: column
-- left out c56_c: column
-- left out c56_d: column
-- left out c56_e: column
-- left out c56_f: column
-- left out c56_g: column
-- left out c56_h: converted
-- before
CREATE TABLE c56_a (id int PRIMARY KEY, c binary(3));
CREATE TABLE c56_b (id int PRIMARY KEY, c varbinary(9));
CREATE TABLE c56_c (id int PRIMARY KEY, c time(6));
CREATE TABLE c56_d (id int PRIMARY KEY, c smallint);
CREATE TABLE c56_e (id int PRIMARY KEY, c float);
CREATE TABLE c56_f (id int PRIMARY KEY, c inet6);
CREATE TABLE c56_g (id int PRIMARY KEY, c double);
CREATE TABLE c56_h (id int PRIMARY KEY, c varchar(20));
CREATE TABLE c56_i (id int PRIMARY KEY, c char(20));
INSERT INTO c56_a VALUES (1, 'abc');
INSERT INTO c56_b VALUES (1, 'abc');
INSERT INTO c56_c VALUES (1, '01:02:03.456789');
INSERT INTO c56_d VALUES (1, 5);
INSERT INTO c56_e VALUES (1, 1.26);
INSERT INTO c56_f VALUES (1, '::ffff:1.2.3.4');
INSERT INTO c56_g VALUES (1, 1.26);
INSERT INTO c56_h VALUES (1, 'a ');
INSERT INTO c56_i VALUES (1, 'a ');
-- during
ALTER TABLE c56_a MODIFY c binary(5);
ALTER TABLE c56_b MODIFY c binary(9);
ALTER TABLE c56_c MODIFY c time;
ALTER TABLE c56_d MODIFY c year;
ALTER TABLE c56_e MODIFY c float(5,1);
ALTER TABLE c56_f MODIFY c varbinary(20);
ALTER TABLE c56_f MODIFY c inet6;
ALTER TABLE c56_g CHANGE c cc real(5,1);
ALTER TABLE c56_h MODIFY c char(20);
ALTER TABLE c56_i MODIFY c varchar(30);
INSERT INTO c56_a (id) VALUES (2);
INSERT INTO c56_b (id) VALUES (2);
INSERT INTO c56_c (id) VALUES (2);
INSERT INTO c56_d (id) VALUES (2);
INSERT INTO c56_e (id) VALUES (2);
INSERT INTO c56_f (id) VALUES (2);
INSERT INTO c56_g (id) VALUES (2);
INSERT INTO c56_h (id) VALUES (2);
INSERT INTO c56_i (id) VALUES (2);

-- case modified_twice
-- left out c57_a: column
-- left out c57_b: column
-- before
CREATE TABLE c57_a (id int PRIMARY KEY, c datetime(6));
CREATE TABLE c57_b (id int PRIMARY KEY, c varchar(9));
INSERT INTO c57_a VALUES (1, '2026-01-01 00:00:00.123456');
INSERT INTO c57_b VALUES (1, '007');
-- during
ALTER TABLE c57_a MODIFY c datetime;
ALTER TABLE c57_a MODIFY c datetime(6);
ALTER TABLE c57_b MODIFY c int;
ALTER TABLE c57_b MODIFY c varchar(9);
INSERT INTO c57_a (id) VALUES (2);
INSERT INTO c57_b (id) VALUES (2);

-- case column_case
-- before
CREATE TABLE c58_t (id int PRIMARY KEY, a int, b int, c int);
CREATE TABLE c58_u (id int PRIMARY KEY, a int, b int, c int);
INSERT INTO c58_t VALUES (1, 1, 2, 3);
INSERT INTO c58_u VALUES (1, 1, 2, 3);
-- during
ALTER TABLE c58_t CHANGE A b int, CHANGE B a int;
INSERT INTO c58_t VALUES (2, 4, 5, 6);
ALTER TABLE c58_t DROP COLUMN A, RENAME COLUMN C TO A;
UPDATE c58_t SET a = a + 1;
ALTER TABLE c58_u CHANGE A b int, CHANGE B a int;
ALTER TABLE c58_u DROP COLUMN A, RENAME COLUMN C TO A;

-- case key_ddl
-- before
CREATE TABLE c59_t (id int PRIMARY KEY, v varchar(9) COLLATE utf8mb4_bin, UNIQUE (v));
INSERT INTO c59_t VALUES (1, 'a'), (2, 'A');
-- during
UPDATE c59_t SET v = 'B' WHERE id = 2;
ALTER TABLE c59_t MODIFY v varchar(9) COLLATE utf8mb4_general_ci NOT NULL;
INSERT INTO c59_t VALUES (3, 'c');
ALTER TABLE c59_t DROP PRIMARY KEY, DROP COLUMN id, ADD PRIMARY KEY (v);
UPDATE c59_t SET v = 'C' WHERE v = 'c';
DELETE FROM c59_t WHERE v = 'b';

-- case swap_same_shape
-- before
CREATE TABLE c60_t (id int PRIMARY KEY, v int);
CREATE TABLE c60_u (id int PRIMARY KEY, v int);
INSERT INTO c60_t VALUES (1, 1);
INSERT INTO c60_u VALUES (2, 2);
-- during
RENAME TABLE c60_t TO c60_x, c60_u TO c60_t, c60_x TO c60_u;
DELETE FROM c60_t;
CREATE TABLE c60_s LIKE c60_t;
INSERT INTO c60_s SELECT * FROM c60_u;
DROP TABLE c60_u;
RENAME TABLE c60_s TO c60_u;
CREATE OR REPLACE TABLE c60_t LIKE c60_u;
INSERT INTO c60_t VALUES (9, 9);
CREATE OR REPLACE TABLE c60_t (id int PRIMARY KEY, v int);

-- case view_or_temporary_shadow
-- before
CREATE TABLE c61_t (id int PRIMARY KEY, v int);
CREATE TABLE c61_u (id int PRIMARY KEY, v int);
INSERT INTO c61_t VALUES (1, 1);
INSERT INTO c61_u VALUES (1, 1);
-- during
CREATE TEMPORARY TABLE c61_t (id int PRIMARY KEY, v int);
TRUNCATE TABLE c61_t;
ALTER TABLE c61_t MODIFY v bigint;
DROP TABLE c61_t;
CREATE TEMPORARY TABLE c61_u SELECT 1 AS x;
CREATE OR REPLACE TEMPORARY TABLE c61_u SELECT 2 AS y;
DROP TEMPORARY TABLE IF EXISTS c61_u, c61_t;
INSERT INTO c61_t VALUES (2, 2);
INSERT INTO c61_u VALUES (2, 2);

-- case empty_then_altered
-- left out c62_t: own numbers
-- before
CREATE TABLE c62_t (id int PRIMARY KEY, v int);
INSERT INTO c62_t VALUES (1, 1);
-- during
TRUNCATE c62_t;
ALTER TABLE c62_t ADD w int AUTO_INCREMENT UNIQUE;
INSERT INTO c62_t (id) VALUES (2);
CREATE TABLE c62_u (id int PRIMARY KEY);
ALTER TABLE c62_u ADD v varchar(90) DEFAULT uuid_short(), ADD e enum('a');
INSERT INTO c62_u (id) VALUES (1);
CREATE TABLE c62_v (id int PRIMARY KEY);
ALTER IGNORE TABLE c62_v ADD UNIQUE (id);
INSERT INTO c62_v VALUES (1);

-- case partial_statement_undone
-- before
CREATE TABLE c63_t (id int PRIMARY KEY, v int, UNIQUE (v));
INSERT INTO c63_t VALUES (1, 1), (2, 2), (3, 3);
-- during
BEGIN;
INSERT INTO c63_t VALUES (10, 10);
? INSERT INTO c63_t VALUES (11, 11), (12, 1);
? UPDATE c63_t SET v = 2 WHERE id IN (3, 10);
INSERT IGNORE INTO c63_t VALUES (13, 13), (14, 1), (15, 15);
UPDATE IGNORE c63_t SET v = v + 1 ORDER BY id;
COMMIT;
DELETE FROM c63_t ORDER BY id LIMIT 1;
REPLACE INTO c63_t VALUES (2, 13);
INSERT INTO c63_t VALUES (99, 15) ON DUPLICATE KEY UPDATE id = 77;

-- case indexes
-- left out c65_t: expected the value free
-- before
CREATE TABLE c65_t (a int NOT NULL, b int, UNIQUE KEY a (a));
INSERT INTO c65_t VALUES (1, 10), (2, 3);
-- during
INSERT INTO c65_t VALUES (7, 10);
DROP INDEX a ON c65_t;
INSERT INTO c65_t VALUES (1, 10);
UPDATE c65_t SET b = 11 WHERE a = 1 LIMIT 1;

-- case set_statement
-- before
CREATE TABLE c66_t (id int PRIMARY KEY, v int);
CREATE TABLE c66_u (id int PRIMARY KEY, v int);
INSERT INTO c66_t VALUES (1, 1);
INSERT INTO c66_u VALUES (1, 1);
-- during
SET STATEMENT max_statement_time = 100, lock_wait_timeout = (SELECT 5) FOR ALTER TABLE c66_t ADD w int DEFAULT 7;
SET STATEMENT lock_wait_timeout = 5 FOR DROP TABLE c66_u;
SET STATEMENT lock_wait_timeout = 5 FOR RENAME TABLE c66_t TO c66_u;
INSERT INTO c66_u VALUES (2, 2, 2);
SET STATEMENT foreign_key_checks = 0 FOR TRUNCATE TABLE c66_u;

-- case create_as_statement
-- left out c67_t: statement
-- before
CREATE TABLE c67_s (id int PRIMARY KEY, v int);
INSERT INTO c67_s VALUES (1, 1);
-- during
SET SESSION binlog_format = STATEMENT;
CREATE TABLE c67_t SELECT * FROM c67_s;
SET SESSION binlog_format = ROW;
INSERT INTO c67_t VALUES (2, 2);

-- case create_if_not_exists
-- left out c68_t: not replicated
-- before
CREATE DATABASE {db}_z;
CREATE TABLE {db}_z.c68_t (id int PRIMARY KEY, v int);
INSERT INTO {db}_z.c68_t VALUES (1, 1);
-- during
RENAME TABLE {db}_z.c68_t TO c68_t;
CREATE TABLE IF NOT EXISTS c68_t (id int PRIMARY KEY, v int);
INSERT INTO c68_t VALUES (2, 2);
DROP DATABASE {db}_z;

-- case partition_to_table
-- left out c69_n: partition
-- left out c69_t: partition
-- before
CREATE TABLE c69_t (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20));
CREATE TABLE c69_o (id int PRIMARY KEY, v int);
INSERT INTO c69_t VALUES (1, 1), (11, 1);
INSERT INTO c69_o VALUES (21, 1);
-- during
ALTER TABLE c69_t CONVERT PARTITION p0 TO TABLE c69_n;
ALTER TABLE c69_t CONVERT TABLE c69_o TO PARTITION p2 VALUES LESS THAN (30);

-- case empty_copies
-- before
CREATE TABLE c70_t (id int PRIMARY KEY, v int);
INSERT INTO c70_t VALUES (1, 1), (2, 2);
-- during
CREATE TABLE c70_n LIKE c70_t;
ALTER TABLE c70_n ADD made datetime NOT NULL DEFAULT CURRENT_TIMESTAMP, MODIFY v enum('1', '2', '3'), ADD k int AUTO_INCREMENT UNIQUE;
INSERT INTO c70_n (id, v) SELECT id, v FROM c70_t;
RENAME TABLE c70_t TO c70_o, c70_n TO c70_t;
DROP TABLE c70_o;
UPDATE c70_t SET v = 3 WHERE id = 2;

-- case long_names
-- left out long_a: 63 bytes
-- left out long_b: 63 bytes
-- left out long_c: 63 bytes
-- left out dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd: 63 bytes
-- left out eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee: 63 bytes
-- before
CREATE TABLE long_a (id int PRIMARY KEY, `cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc` int);
CREATE TABLE long_b (id int PRIMARY KEY);
CREATE TABLE long_d (id int PRIMARY KEY);
CREATE TABLE `eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee` (id int PRIMARY KEY);
INSERT INTO long_a VALUES (1, 2);
INSERT INTO long_b VALUES (1);
INSERT INTO long_d VALUES (1);
INSERT INTO `eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee` VALUES (1);
-- during
UPDATE long_a SET `cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc` = 3;
ALTER TABLE long_b ADD `üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü` int DEFAULT 5;
INSERT INTO long_b VALUES (2, 6);
CREATE TABLE long_c (id int PRIMARY KEY, `cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc` int);
INSERT INTO long_c VALUES (1, 2);
RENAME TABLE long_d TO `dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd`;
INSERT INTO `dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd` VALUES (2);

-- case no_names
-- left out c71_t: names of columns
-- before
CREATE TABLE c71_t (id int PRIMARY KEY, v int);
CREATE TABLE c71_u (id int PRIMARY KEY, v int);
CREATE SEQUENCE c71_s;
INSERT INTO c71_t VALUES (1, 1);
-- during
SET GLOBAL binlog_row_metadata = MINIMAL;
UPDATE c71_t SET v = 2;
SELECT NEXTVAL(c71_s);
SET GLOBAL binlog_row_metadata = FULL;
INSERT INTO c71_t VALUES (2, 2);
INSERT INTO c71_u VALUES (1, 1);
