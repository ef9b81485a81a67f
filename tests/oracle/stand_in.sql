-- What IvorySQL lacks of Oracle and Sluice's statements need: the dictionary's views, from PostgreSQL's catalogue, and
-- functions. Run once in each database of the tests, in Oracle's dialect.

-- Names in one case change it inside.
CREATE FUNCTION ora_name(n name) RETURNS text AS $$
    SELECT CASE WHEN $1::text = lower($1::text) THEN upper($1::text)
                WHEN $1::text = upper($1::text) THEN lower($1::text) ELSE $1::text END
$$ LANGUAGE sql IMMUTABLE
/
-- A session's temporary tables are its account's, as the definitions of such tables are.
CREATE FUNCTION owner_name(n pg_namespace) RETURNS text AS $$
    SELECT CASE WHEN ($1).oid = pg_my_temp_schema() THEN 'PUBLIC' ELSE ora_name(($1).nspname) END
$$ LANGUAGE sql STABLE
/
CREATE VIEW all_tables AS
SELECT owner_name(n) AS owner, ora_name(c.relname) AS table_name,
       CASE WHEN c.reltuples < 0 THEN NULL ELSE c.reltuples END AS num_rows, 100 AS avg_row_len,
       CASE c.relpersistence WHEN 't' THEN 'Y' ELSE 'N' END AS temporary, 'NO' AS external, 'N' AS secondary, 'NO' AS nested,
       NULL::text AS iot_type
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r'
/
CREATE VIEW all_objects AS
SELECT ora_name(n.nspname) AS owner, ora_name(c.relname) AS object_name,
       CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'INDEX' END AS object_type,
       SYSDATE AS last_ddl_time
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
UNION ALL SELECT 'SYS', 'DBMS_LOCK', 'PACKAGE', SYSDATE UNION ALL SELECT 'SYS', 'DBMS_CRYPTO', 'PACKAGE', SYSDATE
UNION ALL SELECT 'SYS', 'DBMS_FLASHBACK', 'PACKAGE', SYSDATE
/
CREATE VIEW all_tab_cols AS
SELECT owner_name(n) AS owner, ora_name(c.relname) AS table_name, ora_name(a.attname) AS column_name,
       CASE WHEN f.type LIKE 'varchar2%' THEN 'VARCHAR2' WHEN f.type LIKE 'number%' THEN 'NUMBER'
            WHEN f.type LIKE 'raw%' THEN 'RAW' WHEN f.type LIKE 'char%' THEN 'CHAR'
            WHEN f.type = 'long_raw' THEN 'LONG RAW' ELSE upper(f.type) END AS data_type,
       CASE WHEN f.type LIKE 'varchar2%' OR f.type LIKE 'raw%' OR f.type LIKE 'char%' THEN a.atttypmod - 4 END AS data_length,
       CASE WHEN f.type LIKE 'varchar2%' OR f.type LIKE 'char%' THEN a.atttypmod - 4 END AS char_length,
       CASE WHEN f.type LIKE '%char)' THEN 'C' WHEN f.type LIKE '%byte)' THEN 'B' END AS char_used,
       CASE WHEN f.type LIKE 'number%' AND a.atttypmod >= 0 THEN ((a.atttypmod - 4) >> 16) & 65535 END AS data_precision,
       CASE WHEN f.type LIKE 'number%' AND a.atttypmod >= 0 THEN (a.atttypmod - 4) & 2047 END AS data_scale,
       a.attnum AS internal_column_id, a.attnum AS column_id, NULL AS data_type_owner, 'NO' AS user_generated, CASE WHEN a.attnotnull THEN 'N' ELSE 'Y' END AS nullable,
       CASE WHEN a.attgenerated <> '' THEN 'YES' ELSE 'NO' END AS virtual_column,
       CASE WHEN a.attidentity <> '' THEN 'YES' ELSE 'NO' END AS identity_column, 'NO' AS hidden_column
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (SELECT pg_catalog.format_type(a.atttypid, a.atttypmod) AS type) f
WHERE a.attnum > 0 AND NOT a.attisdropped
/
CREATE VIEW all_constraints AS
SELECT ora_name(n.nspname) AS owner, ora_name(k.conname) AS constraint_name, ora_name(c.relname) AS table_name,
       CASE k.contype WHEN 'p' THEN 'P' WHEN 'u' THEN 'U' WHEN 'f' THEN 'R' ELSE 'C' END AS constraint_type,
       CASE WHEN k.contype IN ('p', 'u') THEN ora_name(k.conname) END AS index_name, 'ENABLED' AS status,
       CASE k.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' ELSE 'NO ACTION' END AS delete_rule,
       CASE WHEN k.condeferrable THEN 'DEFERRABLE' ELSE 'NOT DEFERRABLE' END AS deferrable,
       ora_name(pn.nspname) AS r_owner, ora_name(i.relname) AS r_constraint_name
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_class i ON i.oid = k.conindid AND k.contype = 'f'
LEFT JOIN pg_namespace pn ON pn.oid = i.relnamespace
/
CREATE VIEW all_cons_columns AS
SELECT ora_name(n.nspname) AS owner, ora_name(k.conname) AS constraint_name, ora_name(c.relname) AS table_name,
       ora_name(a.attname) AS column_name, u.place AS position
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY u (number, place)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.number
/
CREATE VIEW all_indexes AS
SELECT ora_name(n.nspname) AS owner, ora_name(i.relname) AS index_name,
       ora_name(n.nspname) AS table_owner, ora_name(c.relname) AS table_name,
       CASE WHEN x.indisunique AND x.indimmediate THEN 'UNIQUE' ELSE 'NONUNIQUE' END AS uniqueness, 'NORMAL' AS index_type
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_namespace n ON n.oid = i.relnamespace
JOIN pg_class c ON c.oid = x.indrelid
/
CREATE VIEW all_ind_columns AS
SELECT ora_name(n.nspname) AS index_owner, ora_name(i.relname) AS index_name, ora_name(n.nspname) AS table_owner,
       ora_name(c.relname) AS table_name, ora_name(a.attname) AS column_name, u.place AS column_position
FROM pg_index x
JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL unnest(x.indkey::smallint[]) WITH ORDINALITY u (number, place)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.number
/
-- For USER_SOURCE and ALL_SOURCE, which are there and know no triggers.
CREATE VIEW trigger_source AS
SELECT 'PUBLIC' AS owner, ora_name(t.tgname) AS name, 'TRIGGER' AS type, p.prosrc::pg_catalog.text AS text
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE NOT t.tgisinternal
/
CREATE VIEW all_triggers AS
SELECT 'PUBLIC' AS owner, ora_name(n.nspname) AS table_owner, ora_name(c.relname) AS table_name, ora_name(t.tgname) AS trigger_name,
       CASE t.tgenabled WHEN 'D' THEN 'DISABLED' ELSE 'ENABLED' END AS status
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT t.tgisinternal
/
CREATE VIEW all_mviews AS SELECT 'X' AS owner, 'X' AS container_name FROM DUAL WHERE 1 = 0
/
CREATE VIEW all_policies AS
SELECT 'X' AS object_owner, 'X' AS object_name, 'X' AS policy_name, 'YES' AS enable, 'YES' AS sel FROM DUAL WHERE 1 = 0
/
CREATE VIEW session_privs AS SELECT unnest(ARRAY['CREATE SESSION', 'CREATE TABLE', 'CREATE SEQUENCE', 'CREATE VIEW',
                                                 'CREATE PROCEDURE', 'CREATE TRIGGER']) AS privilege
/
CREATE VIEW user_sys_privs AS SELECT privilege FROM session_privs
/
CREATE VIEW nls_database_parameters AS SELECT 'NLS_CHARACTERSET' AS parameter, 'AL32UTF8' AS value
/
CREATE FUNCTION standard_hash(value text, method text) RETURNS raw AS $$
    SELECT pg_catalog.decode(pg_catalog.md5($1), 'hex')::raw
$$ LANGUAGE sql IMMUTABLE
/
CREATE FUNCTION sluice_hex(value blob) RETURNS text AS $$
    SELECT pg_catalog.encode($1::pg_catalog.bytea, 'hex')
$$ LANGUAGE sql IMMUTABLE
/
CREATE FUNCTION hex_number(digits text) RETURNS number AS $$
    SELECT ('x' || lpad($1, 16, '0'))::pg_catalog.bit(64)::bigint::number
$$ LANGUAGE sql IMMUTABLE
/
-- As TM9 does: without a digit before the point; with an exponent where that would have more than 64 characters.
CREATE FUNCTION plain_text(value number) RETURNS text AS $$
    SELECT CASE WHEN pg_catalog.length(n.t) <= 64 THEN n.t
                ELSE n.sign || pg_catalog.left(n.digits, 1) || CASE WHEN pg_catalog.length(n.digits) > 1 THEN '.' END
                    || pg_catalog.substr(n.digits, 2) || CASE WHEN n.power < 0 THEN 'E-' ELSE 'E+' END
                    || pg_catalog.lpad(pg_catalog.abs(n.power)::pg_catalog.text, CASE WHEN pg_catalog.abs(n.power) < 100 THEN 2 ELSE 3 END, '0') END
    FROM (SELECT s.t, CASE WHEN s.x < 0 THEN '-' END AS sign,
                 pg_catalog.btrim(pg_catalog.regexp_replace(s.t, '[-.]', pg_catalog.repeat('x', 0), 'g'), '0') AS digits,
                 pg_catalog.floor(pg_catalog.log(pg_catalog.abs(NULLIF(s.x, 0))))::pg_catalog.int4 AS power
          FROM (SELECT pg_catalog.trim_scale($1::pg_catalog.numeric) AS x,
                       pg_catalog.regexp_replace(pg_catalog.trim_scale($1::pg_catalog.numeric)::pg_catalog.text,
                                                 '^(-?)0\.', '\1.') AS t) s) n
$$ LANGUAGE sql IMMUTABLE STRICT
/
CREATE FUNCTION to_binary_double(value text) RETURNS binary_double AS $$ SELECT $1::binary_double $$ LANGUAGE sql
/
CREATE FUNCTION to_binary_double(value pg_catalog.numeric) RETURNS binary_double AS $$ SELECT $1::binary_double $$ LANGUAGE sql
/
CREATE FUNCTION empty_clob() RETURNS clob AS $$ SELECT pg_catalog.repeat('x', 0)::clob $$ LANGUAGE sql IMMUTABLE
/
CREATE FUNCTION empty_blob() RETURNS blob AS $$ SELECT pg_catalog.decode(pg_catalog.repeat('x', 0), 'hex')::blob $$
LANGUAGE sql IMMUTABLE
/
CREATE FUNCTION to_blob(value bytea) RETURNS blob AS $$ SELECT $1::blob $$ LANGUAGE sql IMMUTABLE
/
CREATE DOMAIN pls_integer AS integer
/
-- Of the text of an interval: +000000003-02, or -000000001 02:03:04.500000000.
CREATE FUNCTION part_of(part text, value text) RETURNS number AS $$
    SELECT (CASE WHEN left($2, 1) = '-' THEN -1 ELSE 1 END * (pg_catalog.regexp_match($2,
        CASE $1 WHEN 'YEAR' THEN '^.(\d+)-' WHEN 'MONTH' THEN '-(\d+)$' WHEN 'DAY' THEN '^.(\d+) ' WHEN 'HOUR' THEN ' (\d+):'
                WHEN 'MINUTE' THEN ':(\d+):' ELSE ':([0-9.]+)$' END))[1]::pg_catalog.numeric)::number
$$ LANGUAGE sql IMMUTABLE
/
CREATE PACKAGE DBMS_LOB IS
    FUNCTION COMPARE(a clob, b clob) RETURN NUMBER;
    FUNCTION COMPARE(a blob, b blob) RETURN NUMBER;
    FUNCTION GETLENGTH(a clob) RETURN NUMBER;
    FUNCTION GETLENGTH(a blob) RETURN NUMBER;
    FUNCTION INSTR(a clob, wanted VARCHAR2) RETURN NUMBER;
    FUNCTION SUBSTR(a clob, amount NUMBER, place NUMBER) RETURN VARCHAR2;
    FUNCTION SUBSTR(a blob, amount NUMBER, place NUMBER) RETURN raw;
    PROCEDURE CREATETEMPORARY(a IN OUT blob, cached BOOLEAN, duration NUMBER);
    PROCEDURE APPEND(a IN OUT clob, given clob);
    PROCEDURE FREETEMPORARY(a IN OUT clob);
    PROCEDURE FREETEMPORARY(a IN OUT blob);
    PROCEDURE CONVERTTOBLOB(a IN OUT blob, given clob, amount NUMBER, to_place IN OUT INTEGER, from_place IN OUT INTEGER,
                            characters NUMBER, language IN OUT INTEGER, warning IN OUT INTEGER);
END;
/
CREATE PACKAGE BODY DBMS_LOB IS
    FUNCTION GETLENGTH(a clob) RETURN NUMBER IS
    BEGIN
        RETURN pg_catalog.length(a::pg_catalog.text);
    END;

    FUNCTION GETLENGTH(a blob) RETURN NUMBER IS
    BEGIN
        RETURN pg_catalog.octet_length(a::pg_catalog.bytea);
    END;

    FUNCTION INSTR(a clob, wanted VARCHAR2) RETURN NUMBER IS
    BEGIN
        RETURN pg_catalog.strpos(a::pg_catalog.text, wanted::pg_catalog.text);
    END;

    FUNCTION SUBSTR(a clob, amount NUMBER, place NUMBER) RETURN VARCHAR2 IS
    BEGIN
        RETURN pg_catalog.substr(a::pg_catalog.text, place::integer, amount::integer);
    END;

    FUNCTION SUBSTR(a blob, amount NUMBER, place NUMBER) RETURN raw IS
    BEGIN
        RETURN pg_catalog.substr(a::pg_catalog.bytea, place::integer, amount::integer)::raw;
    END;

    PROCEDURE CREATETEMPORARY(a IN OUT blob, cached BOOLEAN, duration NUMBER) IS
    BEGIN
        a := NULL;
    END;

    PROCEDURE APPEND(a IN OUT clob, given clob) IS
    BEGIN
        a := a || given;
    END;

    PROCEDURE FREETEMPORARY(a IN OUT clob) IS
    BEGIN
        a := NULL;
    END;

    PROCEDURE FREETEMPORARY(a IN OUT blob) IS
    BEGIN
        a := NULL;
    END;

    PROCEDURE CONVERTTOBLOB(a IN OUT blob, given clob, amount NUMBER, to_place IN OUT INTEGER, from_place IN OUT INTEGER,
                            characters NUMBER, language IN OUT INTEGER, warning IN OUT INTEGER) IS
    BEGIN
        a := pg_catalog.convert_to(given::pg_catalog.text, 'UTF8')::blob;
    END;

    FUNCTION COMPARE(a blob, b blob) RETURN NUMBER IS
    BEGIN
        IF a = b THEN RETURN 0; END IF;
        RETURN 1;
    END;

    FUNCTION COMPARE(a clob, b clob) RETURN NUMBER IS
    BEGIN
        IF a = b THEN RETURN 0; END IF;
        RETURN 1;
    END;
END;
/
CREATE PACKAGE DBMS_CRYPTO IS FUNCTION HASH(value clob, method NUMBER) RETURN raw; END;
/
CREATE PACKAGE BODY DBMS_CRYPTO IS
    FUNCTION HASH(value clob, method NUMBER) RETURN raw IS
    BEGIN
        RETURN standard_hash(value, 'MD5');
    END;
END;
/
CREATE PACKAGE DBMS_STATS IS PROCEDURE GATHER_TABLE_STATS(owner VARCHAR2, name VARCHAR2); END;
/
CREATE PACKAGE BODY DBMS_STATS IS
    PROCEDURE GATHER_TABLE_STATS(owner VARCHAR2, name VARCHAR2) IS
    BEGIN
        NULL;
    END;
END;
