-- What IvorySQL lacks of Oracle and a master's statements and packages need. Run once in each database of the tests, behind
-- stand_in.sql, in Oracle's dialect.

CREATE DOMAIN timestamp_unconstrained AS timestamp
/
CREATE DOMAIN timestamp_tz_unconstrained AS timestamp with time zone
/
CREATE DOMAIN timestamp_ltz_unconstrained AS timestamp with local time zone
/
CREATE DOMAIN yminterval_unconstrained AS interval year(9) to month
/
CREATE DOMAIN dsinterval_unconstrained AS interval day(9) to second(9)
/
CREATE DOMAIN nvarchar2 AS varchar2
/
CREATE DOMAIN nclob AS clob
/
CREATE SEQUENCE scn
/
CREATE VIEW all_users AS
SELECT ora_name(n.nspname) AS username,
       CASE WHEN n.nspname LIKE 'pg\_%' OR n.nspname IN ('information_schema', 'sys', 'dbms_lob', 'dbms_crypto', 'dbms_stats')
            THEN 'Y' ELSE 'N' END AS oracle_maintained
FROM pg_namespace n
/
CREATE VIEW user_objects AS
SELECT ora_name(c.relname) AS object_name,
       CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'INDEX' END AS object_type,
       'VALID' AS status
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public'
UNION ALL SELECT ora_name(p.pkgname), 'PACKAGE', 'VALID' FROM pg_package p
UNION ALL SELECT ora_name(t.tgname), 'TRIGGER', 'VALID' FROM pg_trigger t WHERE NOT t.tgisinternal
/
CREATE VIEW user_triggers AS
SELECT t.trigger_name, t.table_owner, t.table_name, t.status FROM all_triggers t
/
CREATE VIEW user_tables AS SELECT t.table_name, t.avg_row_len FROM all_tables t WHERE t.owner = 'PUBLIC'
/
CREATE VIEW user_errors AS SELECT 'a' AS name, 'b' AS type, 1 AS sequence, 1 AS line, 'ERROR' AS attribute, 'x' AS text FROM DUAL
WHERE 1 = 0
/
-- A transaction has a lock on its own number, from when it has one until it ends. The SCN with which it began is that of
-- the last moment that is held since before it (tests/oracle/ivorysql.py).
CREATE VIEW gv$transaction AS
SELECT 1 AS inst_id, 0 AS xidusn, 0 AS xidslot, l.transactionid::pg_catalog.text AS xidsqn, a.xact_start AS start_date,
       l.pid AS ses_addr,
       (SELECT MAX(pg_catalog.split_part(h.application_name, ' ', 3)::pg_catalog.int8) FROM pg_stat_activity h
        WHERE h.datname = a.datname AND h.application_name LIKE 'holds SCN %' AND h.xact_start <= a.xact_start) AS start_scn
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
/
CREATE VIEW gv$session AS
SELECT 1 AS inst_id, a.pid AS saddr, a.pid AS sid, 7 AS serial#, a.usename AS username, a.application_name AS program
FROM pg_stat_activity a
/
CREATE VIEW dba_2pc_pending AS
SELECT '0.0.' || p.transaction::pg_catalog.text AS local_tran_id, 'prepared' AS state FROM pg_prepared_xacts p
/
CREATE VIEW gv$database AS SELECT 1 AS inst_id, 0 AS current_scn FROM DUAL
/
CREATE VIEW gv$instance AS SELECT 1 AS inst_id, 1 AS thread#, 'OPEN' AS status, DATE '2020-01-01' AS startup_time FROM DUAL
/
CREATE VIEW v$thread AS SELECT 1 AS thread#, 'OPEN' AS status FROM DUAL
/
CREATE VIEW v$database AS
SELECT 4021 AS dbid, 'PRIMARY' AS database_role, 'READ WRITE' AS open_mode, 'YES' AS force_logging FROM DUAL
/
CREATE VIEW v$database_incarnation AS SELECT 1 AS resetlogs_id, 'CURRENT' AS status FROM DUAL
/
CREATE VIEW v$pdbs AS SELECT 1 AS con_id, HEXTORAW('0A') AS guid FROM DUAL
/
CREATE VIEW v$pdb_incarnation AS SELECT 0 AS pdb_incarnation#, 'CURRENT' AS status, 1 AS con_id FROM DUAL
/
CREATE PROCEDURE raise_application_error(code NUMBER, what VARCHAR2) IS
BEGIN
    RAISE EXCEPTION 'ORA%: %', code, what;
END;
/
CREATE FUNCTION to_char(value binary_double, format varchar2, settings varchar2) RETURNS varchar2 AS $$
    SELECT to_char($1, $2::text)::varchar2
$$ LANGUAGE sql
/
CREATE FUNCTION raw_length(value bytea) RETURNS integer AS $$ SELECT pg_catalog.octet_length($1) $$ LANGUAGE sql IMMUTABLE
/
CREATE FUNCTION raw_compare(one bytea, other bytea) RETURNS integer AS $$ SELECT CASE WHEN $1 = $2 THEN 0 ELSE 1 END $$ LANGUAGE sql
/
CREATE FUNCTION text_of_raw(value bytea) RETURNS varchar2 AS $$ SELECT pg_catalog.convert_from($1, 'UTF8')::varchar2 $$ LANGUAGE sql
/
CREATE FUNCTION without_control(value bytea) RETURNS bytea AS $$
    SELECT pg_catalog.convert_to(pg_catalog.regexp_replace(pg_catalog.convert_from($1, 'UTF8'),
                                                           E'[\x01-\x1f\x7f]', pg_catalog.repeat('a', 0), 'g'), 'UTF8')
$$ LANGUAGE sql IMMUTABLE
/
CREATE FUNCTION ora_hash(value text, last_part number) RETURNS number AS $$
    SELECT ((pg_catalog.hashtext($1) & 2147483647) % ($2::integer + 1))::number
$$ LANGUAGE sql IMMUTABLE
/
CREATE FUNCTION nls_charset_id(name text) RETURNS number AS $$ SELECT 873::number $$ LANGUAGE sql IMMUTABLE
/
CREATE PACKAGE DBMS_TRANSACTION IS FUNCTION LOCAL_TRANSACTION_ID(create_transaction BOOLEAN) RETURN VARCHAR2; END;
/
CREATE PACKAGE BODY DBMS_TRANSACTION IS
    FUNCTION LOCAL_TRANSACTION_ID(create_transaction BOOLEAN) RETURN VARCHAR2 IS
    BEGIN
        RETURN '0.0.' || pg_catalog.pg_current_xact_id()::pg_catalog.text;
    END;
END;
/
CREATE PACKAGE DBMS_APPLICATION_INFO IS PROCEDURE SET_CLIENT_INFO(said VARCHAR2); END;
/
CREATE PACKAGE BODY DBMS_APPLICATION_INFO IS
    PROCEDURE SET_CLIENT_INFO(said VARCHAR2) IS
        done pg_catalog.text;
    BEGIN
        done := pg_catalog.set_config('sluice.client_info', said::pg_catalog.text, FALSE);
    END;
END;
/
CREATE VIEW user_tab_privs AS SELECT 'NOBODY' AS grantee, 'X' AS table_name, 'EXECUTE' AS privilege FROM DUAL WHERE 1 = 0
/
CREATE VIEW user_tab_privs_made AS SELECT 'NOBODY' AS grantee, 'X' AS table_name, 'EXECUTE' AS privilege FROM DUAL WHERE 1 = 0
/
CREATE PACKAGE DBMS_ASSERT IS FUNCTION ENQUOTE_NAME(name VARCHAR2, capitalize BOOLEAN) RETURN VARCHAR2; END;
/
CREATE PACKAGE BODY DBMS_ASSERT IS
    FUNCTION ENQUOTE_NAME(name VARCHAR2, capitalize BOOLEAN) RETURN VARCHAR2 IS
    BEGIN
        RETURN '"' || name || '"';
    END;
END;
/
-- A trigger here calls a function; its body is made of the block.
CREATE FUNCTION make_trigger(code clob) RETURNS void AS $$
DECLARE
    found pg_catalog.text[];
    body pg_catalog.text;
BEGIN
    found := pg_catalog.regexp_match(code::pg_catalog.text,
        '^CREATE OR REPLACE NONEDITIONABLE TRIGGER ("[^"]+")\s+AFTER ([A-Z ]+) ON ("[^"]+"\."[^"]+")\s+FOR EACH ROW\s+DECLARE(.*)\mBEGIN\M(.*)END;$');
    body := pg_catalog.replace(pg_catalog.replace(found[5], ':OLD.', 'OLD.'), ':NEW.', 'NEW.');
    body := pg_catalog.replace(body, 'RETURN;', 'RETURN NULL;');
    body := pg_catalog.replace(body, 'WHEN INSERTING THEN', 'WHEN TG_OP = ''INSERT'' THEN');
    body := pg_catalog.replace(body, 'WHEN UPDATING THEN', 'WHEN TG_OP = ''UPDATE'' THEN');
    body := pg_catalog.replace(body, 'ROWIDTOCHAR(CASE WHEN DELETING THEN OLD.ROWID ELSE NEW.ROWID END)',
                               'COALESCE(NEW.ctid, OLD.ctid)::pg_catalog.text');
    EXECUTE 'CREATE OR REPLACE FUNCTION ' || pg_catalog.btrim(found[1], '"') || '_body() RETURNS trigger AS $body$ DECLARE'
        || pg_catalog.replace(found[4], '.ITEM;', '_ITEM;') || 'BEGIN' || body || ' RETURN NULL; END $body$ LANGUAGE plisql';
    EXECUTE 'CREATE OR REPLACE TRIGGER ' || found[1] || ' AFTER ' || found[2] || ' ON ' || found[3]
        || ' FOR EACH ROW EXECUTE FUNCTION ' || pg_catalog.btrim(found[1], '"') || '_body()';
END $$ LANGUAGE plisql
/
CREATE FUNCTION remove_trigger(name VARCHAR2) RETURNS void AS $$
DECLARE
    place pg_catalog.text;
BEGIN
    SELECT '"' || t.TABLE_OWNER || '"."' || t.TABLE_NAME || '"' INTO place FROM USER_TRIGGERS t WHERE t.TRIGGER_NAME = name;
    EXECUTE 'DROP TRIGGER "' || name || '" ON ' || place;
END $$ LANGUAGE plisql
