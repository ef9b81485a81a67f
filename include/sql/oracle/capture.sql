-- Package CAPTURE: creates, checks and removes the trigger of each registered table. Its code is generated from
-- COLS_VIEW.
-- Called by: sluice.vendors.oracle.source.resources; or a person after code_body.sql, and then for each table:
--   INSERT INTO ${prefix}TABLES (SCHEMANAME, TABLENAME, ACTIONS, REPL_KEY, TRIGGER_NAME)
--     VALUES ('SHOP', 'ORDERS', 'IUD', ${prefix}SEQ.NEXTVAL, 'TEST_TR01');
--   EXECUTE ${prefix}CAPTURE.CREATE_TRIGGER('SHOP', 'ORDERS')
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE TRIGGER; for tables of others CREATE ANY TRIGGER and SELECT on each. They are granted to the account
--   itself: a package has no privileges from roles.
-- Oldest version: Oracle 12.2.
SET DEFINE OFF

CREATE OR REPLACE NONEDITIONABLE PACKAGE ${prefix}CAPTURE AUTHID DEFINER AS
    -- Makes or renews the trigger of a registered table. Its row in TABLES becomes OK when every transaction that wrote to the
    -- table without it has ended; those are waited for a second, then ORA-30006 asks to try again. Raises ORA-20001 where the
    -- table cannot be captured, with every column that stands in the way.
    PROCEDURE CREATE_TRIGGER(p_schema VARCHAR2, p_table VARCHAR2);
    -- Removes it.
    PROCEDURE DROP_TRIGGER(p_schema VARCHAR2, p_table VARCHAR2);
    -- The statement that CREATE_TRIGGER runs; NULL where nothing is to be captured.
    FUNCTION TRIGGER_CODE(p_schema VARCHAR2, p_table VARCHAR2) RETURN CLOB;
    -- What is wrong with it; NULL when it is in place, alone, enabled, valid and on its table.
    FUNCTION TRIGGER_FAULT(p_schema VARCHAR2, p_table VARCHAR2) RETURN VARCHAR2;
    -- The same of faults by which changes are lost.
    FUNCTION PASSED_BY(p_schema VARCHAR2, p_table VARCHAR2) RETURN VARCHAR2;
    -- What stands in the way of capturing the table; NULL for nothing.
    FUNCTION UNFIT(p_schema VARCHAR2, p_table VARCHAR2) RETURN VARCHAR2;
END ${prefix}CAPTURE;
/

CREATE OR REPLACE NONEDITIONABLE PACKAGE BODY ${prefix}CAPTURE AS
    -- How the value of a type is written; NULL for one that is not so written. %s stands for :OLD or :NEW and the column.
    FUNCTION TEXT_CODE(p_type VARCHAR2, p_scale NUMBER) RETURN VARCHAR2 IS
        l_digits VARCHAR2(2) := TO_CHAR(GREATEST(NVL(p_scale, 6), 6), 'FM90');
    BEGIN
        RETURN CASE
            WHEN p_type IN ('VARCHAR2', 'CHAR') THEN '%s'
            WHEN p_type IN ('NUMBER', 'FLOAT') THEN '${prefix}CODE.NUMBER_TEXT(%s)'
            WHEN p_type IN ('BINARY_FLOAT', 'BINARY_DOUBLE') THEN '${prefix}CODE.DOUBLE_TEXT(%s)'
            WHEN p_type = 'DATE' THEN '${prefix}CODE.DATE_TEXT(%s)'
            WHEN p_type LIKE 'TIMESTAMP(_) WITH TIME ZONE' THEN '${prefix}CODE.ZONED_TEXT(%s, ' || l_digits || ')'
            WHEN p_type LIKE 'TIMESTAMP(_) WITH LOCAL TIME ZONE' THEN '${prefix}CODE.LOCAL_TEXT(%s, ' || l_digits || ')'
            WHEN p_type LIKE 'TIMESTAMP(_)' THEN '${prefix}CODE.TIMESTAMP_TEXT(%s, ' || l_digits || ')'
            WHEN p_type LIKE 'INTERVAL YEAR(_) TO MONTH' THEN '${prefix}CODE.MONTHS_TEXT(%s)'
            WHEN p_type LIKE 'INTERVAL DAY(_) TO SECOND(_)' THEN '${prefix}CODE.SECONDS_TEXT(%s)'
            WHEN p_type = 'RAW' THEN '${prefix}CODE.RAW_TEXT(%s)'
        END;
    END TEXT_CODE;

    -- Types that no trigger can read, or not as a text: such values are looked for afterwards, by the row's key.
    FUNCTION IS_UNREAD(p_type VARCHAR2) RETURN BOOLEAN IS
    BEGIN
        RETURN p_type IN ('LONG', 'LONG RAW', 'XMLTYPE');
    END IS_UNREAD;

    FUNCTION IS_LOB(p_type VARCHAR2) RETURN BOOLEAN IS
    BEGIN
        RETURN p_type IN ('CLOB', 'NCLOB', 'BLOB');
    END IS_LOB;

    FUNCTION IS_NATIONAL(p_type VARCHAR2) RETURN BOOLEAN IS
    BEGIN
        RETURN p_type IN ('NVARCHAR2', 'NCHAR');
    END IS_NATIONAL;

    FUNCTION QUOTED(p_name VARCHAR2) RETURN VARCHAR2 IS
    BEGIN
        RETURN DBMS_ASSERT.ENQUOTE_NAME(p_name, FALSE);
    END QUOTED;

    FUNCTION LITERAL(p_text VARCHAR2) RETURN VARCHAR2 IS
    BEGIN
        RETURN '''' || REPLACE(p_text, '''', '''''') || '''';
    END LITERAL;

    FUNCTION KEY_COLUMNS(p_schema VARCHAR2, p_table VARCHAR2) RETURN PLS_INTEGER IS
        l_found PLS_INTEGER;
    BEGIN
        SELECT COUNT(*) INTO l_found FROM ${prefix}COLS_VIEW v
        WHERE v.SCHEMANAME = p_schema AND v.TABLENAME = p_table AND v.KEYPOS > 0;
        RETURN l_found;
    END KEY_COLUMNS;

    PROCEDURE NOTE(p_faults IN OUT NOCOPY VARCHAR2, p_fault VARCHAR2) IS
    BEGIN
        p_faults := SUBSTRB(p_faults || CASE WHEN p_faults IS NOT NULL THEN '; ' END || p_fault, 1, 1500);
    END NOTE;

    FUNCTION UNFIT(p_schema VARCHAR2, p_table VARCHAR2) RETURN VARCHAR2 IS
        l_faults VARCHAR2(32767);
        l_unicode PLS_INTEGER;
        l_key_bytes NUMBER := 0;
        l_columns PLS_INTEGER := 0;
        l_keys PLS_INTEGER := KEY_COLUMNS(p_schema, p_table);
    BEGIN
        SELECT COUNT(*) INTO l_unicode FROM NLS_DATABASE_PARAMETERS n
        WHERE n.PARAMETER = 'NLS_CHARACTERSET' AND n.VALUE IN ('AL32UTF8', 'UTF8');
        FOR c IN (
            SELECT v.COLUMN_NAME, v.DATA_TYPE, v.DATA_SCALE, v.DATA_LENGTH, v.KEYPOS FROM ${prefix}COLS_VIEW v
            WHERE v.SCHEMANAME = p_schema AND v.TABLENAME = p_table ORDER BY v.INTERNAL_COLUMN_ID
        ) LOOP
            l_columns := l_columns + 1;
            IF IS_NATIONAL(c.DATA_TYPE) OR c.DATA_TYPE = 'NCLOB' THEN
                IF l_unicode = 0 THEN
                    NOTE(l_faults, 'column ' || c.COLUMN_NAME || ' is ' || c.DATA_TYPE || ', and the database is not in Unicode');
                END IF;
            ELSIF IS_UNREAD(c.DATA_TYPE) THEN
                IF l_keys = 0 THEN
                    NOTE(l_faults, 'column ' || c.COLUMN_NAME || ' is ' || c.DATA_TYPE
                        || ', which no trigger can read, and there is no key to look for it by');
                END IF;
            ELSIF TEXT_CODE(c.DATA_TYPE, c.DATA_SCALE) IS NULL AND NOT IS_LOB(c.DATA_TYPE) THEN
                NOTE(l_faults, 'column ' || c.COLUMN_NAME || ' is ' || c.DATA_TYPE || ', which is not replicated');
            END IF;
            IF c.KEYPOS > 0 AND c.DATA_TYPE LIKE 'INTERVAL %' THEN
                NOTE(l_faults, 'column ' || c.COLUMN_NAME || ' of the key is ' || c.DATA_TYPE);
            END IF;
            IF c.KEYPOS > 0 THEN
                l_key_bytes := l_key_bytes + GREATEST(c.DATA_LENGTH * 2, 50);
            END IF;
        END LOOP;
        IF l_columns = 0 THEN
            NOTE(l_faults, 'there is no such table, or the account has no privilege on it');
        END IF;
        IF l_key_bytes > 4000 THEN
            NOTE(l_faults, 'the key may have more than 4000 bytes as a text');
        END IF;
        FOR t IN (
            SELECT a.TEMPORARY, a.EXTERNAL FROM ALL_TABLES a WHERE a.OWNER = p_schema AND a.TABLE_NAME = p_table
        ) LOOP
            IF t.TEMPORARY = 'Y' OR t.EXTERNAL = 'YES' THEN
                NOTE(l_faults, 'the table is temporary or external');
            END IF;
        END LOOP;
        RETURN l_faults;
    END UNFIT;

    -- One call a column. What may be too long for a text of PL/SQL, as digits or in UTF-8, goes as a LOB.
    FUNCTION COLUMN_CODE(
        p_name VARCHAR2, p_type VARCHAR2, p_scale NUMBER, p_bytes NUMBER, p_key PLS_INTEGER
    ) RETURN VARCHAR2 IS
        l_adds VARCHAR2(30) := 'ADD_COLUMN';
        l_text VARCHAR2(200) := NVL(TEXT_CODE(p_type, p_scale), '%s');
        l_lob BOOLEAN := IS_LOB(p_type);
    BEGIN
        IF IS_UNREAD(p_type) THEN
            RETURN '    ${prefix}CODE.ADD_UNREAD(i, ' || LITERAL(p_name) || ');' || CHR(10);
        END IF;
        IF IS_LOB(p_type) THEN
            l_adds := 'ADD_' || p_type;
        ELSIF p_bytes > 16000 AND p_type = 'RAW' THEN
            l_adds := 'ADD_BLOB';
            l_text := '%s';
            l_lob := TRUE;
        ELSIF p_bytes > 16000 AND IS_NATIONAL(p_type) THEN
            l_adds := 'ADD_NCLOB';
            l_lob := TRUE;
        ELSIF IS_NATIONAL(p_type) THEN
            l_adds := 'ADD_NATIONAL';
        END IF;
        RETURN '    ${prefix}CODE.' || l_adds || '(i, ' || LITERAL(p_name) || ', '
            || REPLACE(l_text, '%s', ':OLD.' || QUOTED(p_name)) || ', ' || REPLACE(l_text, '%s', ':NEW.' || QUOTED(p_name))
            || CASE WHEN NOT l_lob THEN ', ' || p_key END || ');' || CHR(10);
    END COLUMN_CODE;

    FUNCTION EVENTS(p_actions VARCHAR2) RETURN VARCHAR2 IS
        l_events VARCHAR2(40);
    BEGIN
        FOR e IN (
            SELECT 'I' AS ACTION, 'INSERT' AS EVENT, 1 AS PLACE FROM DUAL
            UNION ALL SELECT 'U', 'UPDATE', 2 FROM DUAL
            UNION ALL SELECT 'D', 'DELETE', 3 FROM DUAL
            ORDER BY 3
        ) LOOP
            IF INSTR(NVL(p_actions, 'IUD'), e.ACTION) > 0 THEN
                l_events := l_events || CASE WHEN l_events IS NOT NULL THEN ' OR ' END || e.EVENT;
            END IF;
        END LOOP;
        RETURN l_events;
    END EVENTS;

    FUNCTION TRIGGER_CODE(p_schema VARCHAR2, p_table VARCHAR2) RETURN CLOB IS
        l_table ${prefix}TABLES%ROWTYPE;
        l_keys PLS_INTEGER := KEY_COLUMNS(p_schema, p_table);
        l_unread BOOLEAN := FALSE;
        l_code CLOB;
    BEGIN
        SELECT t.* INTO l_table FROM ${prefix}TABLES t WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table;
        IF EVENTS(l_table.ACTIONS) IS NULL THEN
            RETURN NULL;
        END IF;
        -- Row by row: a statement that meets a row which changed meanwhile is taken back and runs again, and what a trigger
        -- gathers in a package for the end of the statement is not taken back with it. In the order of the key's columns first:
        -- GUID is put together so.
        l_code := 'CREATE OR REPLACE NONEDITIONABLE TRIGGER ' || QUOTED(l_table.TRIGGER_NAME) || CHR(10)
            || 'AFTER ' || EVENTS(l_table.ACTIONS) || ' ON ' || QUOTED(p_schema) || '.' || QUOTED(p_table) || CHR(10)
            || 'FOR EACH ROW' || CHR(10) || 'DECLARE' || CHR(10) || '    i ${prefix}CODE.ITEM;' || CHR(10)
            || 'BEGIN' || CHR(10)
            || '    IF ${prefix}ORIGIN.IS_SILENT THEN' || CHR(10) || '        RETURN;' || CHR(10) || '    END IF;' || CHR(10)
            || '    ${prefix}CODE.START_ITEM(i, CASE WHEN INSERTING THEN ''INSERT'' WHEN UPDATING THEN ''UPDATE'''
            || ' ELSE ''DELETE'' END);' || CHR(10);
        FOR c IN (
            SELECT v.COLUMN_NAME, v.DATA_TYPE, v.DATA_SCALE, v.DATA_LENGTH, v.KEYPOS FROM ${prefix}COLS_VIEW v
            WHERE v.SCHEMANAME = p_schema AND v.TABLENAME = p_table
            ORDER BY CASE WHEN v.KEYPOS > 0 THEN v.KEYPOS ELSE 10000 + v.INTERNAL_COLUMN_ID END
        ) LOOP
            l_unread := l_unread OR IS_UNREAD(c.DATA_TYPE);
            l_code := l_code
                || COLUMN_CODE(c.COLUMN_NAME, c.DATA_TYPE, c.DATA_SCALE, c.DATA_LENGTH,
                    CASE WHEN c.KEYPOS > 0 THEN l_keys ELSE 0 END);
        END LOOP;
        IF l_table.DEBUG = 1 THEN
            l_code := l_code || '    ${prefix}CODE.DEBUG(i.DB_ACTION || '' '' || ' || LITERAL(p_schema || '.' || p_table)
                || ' || '' '' || i.OLD_GUID || '' '' || i.NEW_GUID);' || CHR(10);
        END IF;
        RETURN l_code || '    ${prefix}CODE.PUT_ITEM(i, ' || LITERAL(p_schema) || ', ' || LITERAL(p_table) || ', '
            || CASE WHEN l_keys = 0 THEN 'ROWIDTOCHAR(CASE WHEN DELETING THEN :OLD.ROWID ELSE :NEW.ROWID END)' ELSE 'NULL' END || ', '
            || CASE WHEN l_unread THEN 'TRUE' ELSE 'FALSE' END || ');' || CHR(10) || 'END;';
    END TRIGGER_CODE;

    -- A trigger of this prefix beside the one that TABLES names. A table that was dropped and flashed back has its trigger under
    -- a name of the recycle bin.
    FUNCTION ANOTHER(p_schema VARCHAR2, p_table VARCHAR2) RETURN VARCHAR2 IS
    BEGIN
        FOR g IN (
            SELECT u.TRIGGER_NAME
            FROM ${prefix}TABLES t
            JOIN USER_TRIGGERS u ON u.TABLE_OWNER = t.SCHEMANAME AND u.TABLE_NAME = t.TABLENAME
                AND u.TRIGGER_NAME <> t.TRIGGER_NAME
            WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table AND EXISTS (
                SELECT 1 FROM USER_SOURCE s
                WHERE s.NAME = u.TRIGGER_NAME AND s.TYPE = 'TRIGGER' AND INSTR(s.TEXT, ' ${prefix}CODE.PUT_ITEM') > 0)
        ) LOOP
            RETURN g.TRIGGER_NAME;
        END LOOP;
        RETURN NULL;
    END ANOTHER;

    FUNCTION PASSED_BY(p_schema VARCHAR2, p_table VARCHAR2) RETURN VARCHAR2 IS
        l_name VARCHAR2(128);
        l_actions VARCHAR2(3);
    BEGIN
        SELECT t.TRIGGER_NAME, t.ACTIONS INTO l_name, l_actions FROM ${prefix}TABLES t
        WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table;
        IF EVENTS(l_actions) IS NULL THEN
            RETURN NULL;
        END IF;
        FOR g IN (
            SELECT u.TABLE_OWNER, u.TABLE_NAME, u.STATUS FROM USER_TRIGGERS u WHERE u.TRIGGER_NAME = l_name
        ) LOOP
            RETURN CASE
                WHEN g.TABLE_OWNER IS NULL OR g.TABLE_OWNER <> p_schema OR g.TABLE_NAME <> p_table
                    THEN 'trigger ' || l_name || ' is on another table'
                WHEN g.STATUS <> 'ENABLED' THEN 'trigger ' || l_name || ' is disabled'
            END;
        END LOOP;
        RETURN 'trigger ' || l_name || ' is missing';
    END PASSED_BY;

    -- INVALID is what a change of the table or a new release leaves, too: the next statement compiles it.
    FUNCTION TRIGGER_FAULT(p_schema VARCHAR2, p_table VARCHAR2) RETURN VARCHAR2 IS
        l_fault VARCHAR2(400) := PASSED_BY(p_schema, p_table);
        l_invalid PLS_INTEGER;
    BEGIN
        IF l_fault IS NOT NULL THEN
            RETURN l_fault;
        END IF;
        l_fault := ANOTHER(p_schema, p_table);
        IF l_fault IS NOT NULL THEN
            RETURN 'trigger ' || l_fault || ' captures the table as well, so that each change comes twice';
        END IF;
        SELECT COUNT(*) INTO l_invalid
        FROM ${prefix}TABLES t
        JOIN USER_OBJECTS o ON o.OBJECT_NAME = t.TRIGGER_NAME AND o.OBJECT_TYPE = 'TRIGGER' AND o.STATUS <> 'VALID'
        WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table;
        RETURN CASE WHEN l_invalid > 0 THEN 'its trigger is to be compiled again' END;
    END TRIGGER_FAULT;

    PROCEDURE CREATE_TRIGGER(p_schema VARCHAR2, p_table VARCHAR2) IS
        l_unfit VARCHAR2(2000) := UNFIT(p_schema, p_table);
        l_code CLOB;
        l_name VARCHAR2(128);
        l_others PLS_INTEGER;
        l_had PLS_INTEGER;
    BEGIN
        IF l_unfit IS NOT NULL THEN
            RAISE_APPLICATION_ERROR(-20001, 'Table ' || p_schema || '.' || p_table || ' cannot be captured: ' || l_unfit
                || '. Leave it out of the configuration, or change it.');
        END IF;
        SELECT t.TRIGGER_NAME INTO l_name FROM ${prefix}TABLES t
        WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table FOR UPDATE;
        -- One of the application's must not be replaced.
        SELECT COUNT(*) INTO l_others FROM USER_TRIGGERS u
        WHERE u.TRIGGER_NAME = l_name AND (u.TABLE_OWNER <> p_schema OR u.TABLE_NAME <> p_table OR NOT EXISTS (
            SELECT 1 FROM USER_SOURCE s
            WHERE s.NAME = u.TRIGGER_NAME AND s.TYPE = 'TRIGGER' AND INSTR(s.TEXT, ' ${prefix}CODE.PUT_ITEM') > 0));
        IF l_others > 0 THEN
            RAISE_APPLICATION_ERROR(-20002, 'Trigger ' || l_name || ' is there already, and is not the one that captures '
                || p_schema || '.' || p_table || '. Configure another trigger name.');
        END IF;
        l_code := TRIGGER_CODE(p_schema, p_table);
        IF l_code IS NULL THEN
            DROP_TRIGGER(p_schema, p_table);
        ELSE
            IF DBMS_LOB.GETLENGTH(l_code) > 32000 THEN
                RAISE_APPLICATION_ERROR(-20003, 'Table ' || p_schema || '.' || p_table || ' has too many columns: its '
                    || 'trigger would have more than 32000 characters. Leave it out of the configuration.');
            END IF;
            SELECT COUNT(*) INTO l_had FROM USER_TRIGGERS u WHERE u.TRIGGER_NAME = l_name;
            BEGIN
                EXECUTE IMMEDIATE l_code;
            EXCEPTION
                WHEN OTHERS THEN
                    -- An invalid trigger fails every statement on its table. One that was there before stays so: without it
                    -- changes would be lost.
                    IF l_had = 0 THEN
                        DROP_TRIGGER(p_schema, p_table);
                    END IF;
                    RAISE;
            END;
            -- By two of them each change would come twice.
            WHILE ANOTHER(p_schema, p_table) IS NOT NULL LOOP
                EXECUTE IMMEDIATE 'DROP TRIGGER ' || QUOTED(ANOTHER(p_schema, p_table));
            END LOOP;
            -- Granted when whoever wrote before the trigger was there has ended.
            EXECUTE IMMEDIATE 'LOCK TABLE ' || QUOTED(p_schema) || '.' || QUOTED(p_table) || ' IN SHARE MODE WAIT 1';
        END IF;
        UPDATE ${prefix}TABLES t SET t.STATUS = 'OK'
        WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table AND t.STATUS <> 'OK';
        COMMIT;
    END CREATE_TRIGGER;

    PROCEDURE DROP_TRIGGER(p_schema VARCHAR2, p_table VARCHAR2) IS
    BEGIN
        FOR g IN (
            SELECT u.TRIGGER_NAME
            FROM USER_TRIGGERS u
            JOIN ${prefix}TABLES t ON t.TRIGGER_NAME = u.TRIGGER_NAME AND t.SCHEMANAME = u.TABLE_OWNER
                AND t.TABLENAME = u.TABLE_NAME
            WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table AND EXISTS (
                SELECT 1 FROM USER_SOURCE s
                WHERE s.NAME = u.TRIGGER_NAME AND s.TYPE = 'TRIGGER' AND INSTR(s.TEXT, ' ${prefix}CODE.PUT_ITEM') > 0)
        ) LOOP
            EXECUTE IMMEDIATE 'DROP TRIGGER ' || QUOTED(g.TRIGGER_NAME);
        END LOOP;
    END DROP_TRIGGER;
END ${prefix}CAPTURE;
/
