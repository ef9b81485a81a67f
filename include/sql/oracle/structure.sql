-- Package STRUCTURE: definitions as XML, their comparison, and what the DDL trigger notes.
-- Called by: a person after capture.sql; then once a second or so: EXECUTE ${prefix}STRUCTURE.CHECK_STRUCTURE
-- Placeholders: ${prefix} as in resources_v1.sql. Result: none.
-- Privileges: as capture.sql. Oldest version: Oracle 12.2.
SET DEFINE OFF

CREATE OR REPLACE PACKAGE ${prefix}STRUCTURE AUTHID DEFINER AS
    -- <desc schema="S" table="T"><colname pos="1" type="NUMBER(10,0)" nullable="false" key="1">ID</colname>...</desc>; NULL where
    -- there is no such table.
    FUNCTION DEFINITION(p_schema VARCHAR2, p_table VARCHAR2) RETURN CLOB;
    -- Compares the definitions with those of the last time; queues CREATE, ALTER and DROP items, and renews the triggers.
    -- Raises ORA-20004 after all, naming the tables for which that failed.
    PROCEDURE CHECK_STRUCTURE;
    -- Called by the DDL trigger, in the transaction of the DDL.
    PROCEDURE ON_DDL(p_event VARCHAR2, p_schema VARCHAR2, p_table VARCHAR2, p_statement VARCHAR2);
END ${prefix}STRUCTURE;
/

CREATE OR REPLACE PACKAGE BODY ${prefix}STRUCTURE AS
    -- A type as CREATE TABLE takes it.
    FUNCTION TYPE_TEXT(
        p_type VARCHAR2, p_bytes NUMBER, p_characters NUMBER, p_unit VARCHAR2, p_precision NUMBER, p_scale NUMBER
    ) RETURN VARCHAR2 IS
    BEGIN
        RETURN CASE
            WHEN p_type IN ('VARCHAR2', 'CHAR') AND p_unit = 'C' THEN p_type || '(' || p_characters || ' CHAR)'
            WHEN p_type IN ('VARCHAR2', 'CHAR') THEN p_type || '(' || p_bytes || ' BYTE)'
            WHEN p_type IN ('NVARCHAR2', 'NCHAR') THEN p_type || '(' || p_characters || ')'
            WHEN p_type = 'RAW' THEN p_type || '(' || p_bytes || ')'
            WHEN p_type = 'NUMBER' AND (p_precision IS NOT NULL OR p_scale IS NOT NULL)
                THEN p_type || '(' || NVL(TO_CHAR(p_precision), '*') || ',' || NVL(p_scale, 0) || ')'
            WHEN p_type = 'FLOAT' THEN p_type || '(' || p_precision || ')'
            ELSE p_type
        END;
    END TYPE_TEXT;

    FUNCTION DEFINITION(p_schema VARCHAR2, p_table VARCHAR2) RETURN CLOB IS
        l_columns CLOB;
    BEGIN
        FOR c IN (
            SELECT v.* FROM ${prefix}COLS_VIEW v
            WHERE v.SCHEMANAME = p_schema AND v.TABLENAME = p_table ORDER BY v.INTERNAL_COLUMN_ID
        ) LOOP
            l_columns := l_columns || '<colname pos="' || c.INTERNAL_COLUMN_ID || '" type="'
                || ${prefix}CODE.XML_ESCAPE(TYPE_TEXT(
                    c.DATA_TYPE, c.DATA_LENGTH, c.CHAR_LENGTH, c.CHAR_USED, c.DATA_PRECISION, c.DATA_SCALE)) || '" nullable="'
                || CASE WHEN c.NULLABLE = 'Y' THEN 'true' ELSE 'false' END || '"'
                || CASE WHEN c.KEYPOS > 0 THEN ' key="' || c.KEYPOS || '"' END || '>'
                || ${prefix}CODE.XML_ESCAPE(c.COLUMN_NAME) || '</colname>';
        END LOOP;
        IF l_columns IS NULL THEN
            RETURN NULL;
        END IF;
        RETURN '<desc schema="' || ${prefix}CODE.XML_ESCAPE(p_schema) || '" table="' || ${prefix}CODE.XML_ESCAPE(p_table)
            || '">' || l_columns || '</desc>';
    END DEFINITION;

    -- Changes that the former trigger captured since lack what it did not know: their rows are read again. CREATE_TRIGGER has
    -- waited for those who wrote them.
    PROCEDURE READ_AGAIN(p_schema VARCHAR2, p_table VARCHAR2, p_above NUMBER) IS
    BEGIN
        FOR r IN (
            SELECT DISTINCT i.GUID FROM ${prefix}ITEMS i
            WHERE i.REPL_KEY > p_above AND i.DB_SCHEMA = p_schema AND i.TABLENAME = p_table AND i.GUID IS NOT NULL
              AND i.DB_ACTION IN ('INSERT', 'UPDATE')
        ) LOOP
            ${prefix}CODE.PUT_AGAIN(p_schema, p_table, r.GUID);
        END LOOP;
    END READ_AGAIN;

    FUNCTION KEPT_NUMBER(p_name VARCHAR2) RETURN NUMBER IS
    BEGIN
        FOR i IN (SELECT f.VALUE FROM ${prefix}INFO f WHERE f.NAME = p_name) LOOP
            RETURN TO_NUMBER(i.VALUE);
        END LOOP;
        RETURN 0;
    END KEPT_NUMBER;

    PROCEDURE KEEP_NUMBER(p_name VARCHAR2, p_value NUMBER) IS
    BEGIN
        UPDATE ${prefix}INFO f SET f.VALUE = TO_CHAR(p_value) WHERE f.NAME = p_name;
        IF SQL%ROWCOUNT = 0 THEN
            INSERT INTO ${prefix}INFO (NAME, VALUE) VALUES (p_name, TO_CHAR(p_value));
        END IF;
    END KEEP_NUMBER;

    PROCEDURE CHECK_TABLE(p_schema VARCHAR2, p_table VARCHAR2, p_status VARCHAR2, p_above NUMBER) IS
        l_now CLOB := DEFINITION(p_schema, p_table);
        l_then CLOB;
        l_known PLS_INTEGER;
    BEGIN
        SELECT COUNT(*) INTO l_known FROM ${prefix}CURRENT_TABLES c WHERE c.SCHEMANAME = p_schema AND c.RELNAME = p_table;
        IF l_known > 0 THEN
            SELECT c.DEFINITION INTO l_then FROM ${prefix}CURRENT_TABLES c
            WHERE c.SCHEMANAME = p_schema AND c.RELNAME = p_table;
        END IF;
        IF l_now IS NULL THEN
            IF l_known > 0 THEN
                ${prefix}CODE.PUT_DEFINITION('DROP', p_schema, p_table, NULL, l_then);
                DELETE FROM ${prefix}CURRENT_TABLES c WHERE c.SCHEMANAME = p_schema AND c.RELNAME = p_table;
            END IF;
        ELSIF l_known = 0 THEN
            ${prefix}CODE.PUT_DEFINITION('CREATE', p_schema, p_table, l_now, NULL);
            INSERT INTO ${prefix}CURRENT_TABLES (RELNAME, SCHEMANAME, DEFINITION) VALUES (p_table, p_schema, l_now);
            ${prefix}CAPTURE.CREATE_TRIGGER(p_schema, p_table);
        ELSIF DBMS_LOB.COMPARE(l_now, l_then) <> 0 THEN
            ${prefix}CODE.PUT_DEFINITION('ALTER', p_schema, p_table, l_now, l_then);
            UPDATE ${prefix}CURRENT_TABLES c SET c.DEFINITION = l_now
            WHERE c.SCHEMANAME = p_schema AND c.RELNAME = p_table;
            -- What makes the trigger commits: until it is renewed the table says so.
            UPDATE ${prefix}TABLES t SET t.STATUS = 'CREATING' WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table;
            ${prefix}CAPTURE.CREATE_TRIGGER(p_schema, p_table);
            READ_AGAIN(p_schema, p_table, p_above);
        ELSIF p_status <> 'OK' OR ${prefix}CAPTURE.TRIGGER_FAULT(p_schema, p_table) IS NOT NULL THEN
            ${prefix}CAPTURE.CREATE_TRIGGER(p_schema, p_table);
            READ_AGAIN(p_schema, p_table, p_above);
        END IF;
        COMMIT;
    END CHECK_TABLE;

    PROCEDURE CHECK_STRUCTURE IS
        l_above NUMBER := KEPT_NUMBER('compared');
        l_now NUMBER := ${prefix}CODE.INCREMENT;
        l_faults VARCHAR2(2000);
    BEGIN
        FOR t IN (SELECT x.SCHEMANAME, x.TABLENAME, x.STATUS FROM ${prefix}TABLES x ORDER BY x.REPL_KEY) LOOP
            BEGIN
                CHECK_TABLE(t.SCHEMANAME, t.TABLENAME, t.STATUS, l_above);
            EXCEPTION
                WHEN OTHERS THEN
                    -- The other tables go on; this one is said at the end, and comes again.
                    ROLLBACK;
                    l_faults := SUBSTRB(l_faults || CHR(10) || SQLERRM, 1, 1900);
            END;
        END LOOP;
        FOR c IN (
            SELECT k.SCHEMANAME, k.RELNAME FROM ${prefix}CURRENT_TABLES k
            WHERE NOT EXISTS (
                SELECT 1 FROM ${prefix}TABLES t WHERE t.SCHEMANAME = k.SCHEMANAME AND t.TABLENAME = k.RELNAME)
        ) LOOP
            DELETE FROM ${prefix}CURRENT_TABLES k WHERE k.SCHEMANAME = c.SCHEMANAME AND k.RELNAME = c.RELNAME;
        END LOOP;
        -- Where a table was left for the next time, what lies behind the former key is looked through again then.
        IF l_faults IS NULL THEN
            KEEP_NUMBER('compared', l_now);
        END IF;
        COMMIT;
        IF l_faults IS NOT NULL THEN
            RAISE_APPLICATION_ERROR(-20004, 'Some definitions could not be compared:' || l_faults);
        END IF;
    END CHECK_STRUCTURE;

    PROCEDURE ON_DDL(p_event VARCHAR2, p_schema VARCHAR2, p_table VARCHAR2, p_statement VARCHAR2) IS
        l_statement VARCHAR2(4000) := UPPER(SUBSTR(p_statement, 1, 1000));
        l_registered PLS_INTEGER;
    BEGIN
        IF ${prefix}ORIGIN.IS_SILENT THEN
            RETURN;
        END IF;
        SELECT COUNT(*) INTO l_registered FROM ${prefix}TABLES t WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table;
        IF l_registered = 0 THEN
            RETURN;
        END IF;
        IF p_event = 'TRUNCATE' THEN
            ${prefix}CODE.PUT_DEFINITION('TRUNCATE', p_schema, p_table, NULL, NULL);
        ELSIF REGEXP_LIKE(l_statement, '(DROP|TRUNCATE|EXCHANGE) +(SUB)?PARTITION') THEN
            -- Rows came or went that no trigger saw.
            ${prefix}CODE.PUT_DEFINITION('DIFFER', p_schema, p_table,
                'a partition was dropped, truncated or exchanged; load the table again', NULL);
        END IF;
        UPDATE ${prefix}TABLES t SET t.STATUS = 'CREATING'
        WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table AND p_event IN ('CREATE', 'ALTER', 'RENAME');
    END ON_DDL;
END ${prefix}STRUCTURE;
/
