-- Package STRUCTURE: definitions of tables as XML, their comparison, and the items of the DDL trigger.
-- Called by: sluice.vendors.oracle.source.resources; or a person after capture.sql. Regularly the apply executes
--   ${prefix}STRUCTURE.CHECK_STRUCTURE.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Result: none.
-- Privileges: as capture.sql.
-- Oldest version: Oracle 12.2.
SET DEFINE OFF

CREATE OR REPLACE NONEDITIONABLE PACKAGE ${prefix}STRUCTURE AUTHID DEFINER AS
    -- <desc schema="S" table="T"><colname pos="1" type="NUMBER(10,0)" nullable="false" key="1">ID</colname>...</desc>; NULL where
    -- there is no such table.
    FUNCTION DEFINITION(p_schema VARCHAR2, p_table VARCHAR2) RETURN CLOB;
    -- Compares the definitions with those of the last time; queues CREATE, ALTER and DROP items, and renews the triggers.
    -- Tables that writers hold come again the next time; of one that cannot be compared or captured any more DIFFER is queued,
    -- once, with the reason. The others go on.
    PROCEDURE CHECK_STRUCTURE;
    -- Queues DIFFER of a table that cannot be captured as it is now, once a reason.
    PROCEDURE NOTE_UNFIT(p_schema VARCHAR2, p_table VARCHAR2, p_why VARCHAR2);
    -- The same for one registered table; makes its trigger where that is not in place. Raises what CAPTURE.CREATE_TRIGGER does.
    PROCEDURE CHECK_TABLE(p_schema VARCHAR2, p_table VARCHAR2);
    -- Called by the DDL trigger, in the transaction of the DDL.
    PROCEDURE ON_DDL(p_event VARCHAR2, p_schema VARCHAR2, p_table VARCHAR2, p_statement VARCHAR2);
END ${prefix}STRUCTURE;
/

CREATE OR REPLACE NONEDITIONABLE PACKAGE BODY ${prefix}STRUCTURE AS
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

    -- Rows that have a value in a column which was added: the slave lacks it. The master gave it by a default, or somebody wrote
    -- it before the trigger knew the column.
    PROCEDURE NOTE_ADDED(p_schema VARCHAR2, p_table VARCHAR2, p_then CLOB) IS
        l_found PLS_INTEGER;
    BEGIN
        FOR c IN (
            SELECT v.COLUMN_NAME FROM ${prefix}COLS_VIEW v WHERE v.SCHEMANAME = p_schema AND v.TABLENAME = p_table
        ) LOOP
            IF DBMS_LOB.INSTR(p_then, '>' || ${prefix}CODE.XML_ESCAPE(c.COLUMN_NAME) || '</colname>') = 0 THEN
                EXECUTE IMMEDIATE 'SELECT COUNT(*) FROM ' || DBMS_ASSERT.ENQUOTE_NAME(p_schema, FALSE) || '.'
                    || DBMS_ASSERT.ENQUOTE_NAME(p_table, FALSE) || ' WHERE '
                    || DBMS_ASSERT.ENQUOTE_NAME(c.COLUMN_NAME, FALSE) || ' IS NOT NULL AND ROWNUM <= 1' INTO l_found;
                IF l_found > 0 THEN
                    ${prefix}CODE.PUT_DEFINITION('DIFFER', p_schema, p_table,
                        'rows have values in the column ' || c.COLUMN_NAME || ', which was added; load the table again', NULL);
                END IF;
            END IF;
        END LOOP;
    END NOTE_ADDED;

    PROCEDURE CHECK_TABLE(p_schema VARCHAR2, p_table VARCHAR2) IS
        l_now CLOB := DEFINITION(p_schema, p_table);
        l_then CLOB;
        l_known PLS_INTEGER;
        l_status VARCHAR2(10);
        l_passed VARCHAR2(2000) := ${prefix}CAPTURE.PASSED_BY(p_schema, p_table);
    BEGIN
        SELECT t.STATUS INTO l_status FROM ${prefix}TABLES t WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table;
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
            -- As many columns as before: one has another name.
            IF REGEXP_COUNT(l_now, '<colname ') > REGEXP_COUNT(l_then, '<colname ') THEN
                NOTE_ADDED(p_schema, p_table, l_then);
            END IF;
        ELSIF l_status <> 'OK' OR ${prefix}CAPTURE.TRIGGER_FAULT(p_schema, p_table) IS NOT NULL THEN
            ${prefix}CAPTURE.CREATE_TRIGGER(p_schema, p_table);
            IF l_passed IS NOT NULL THEN
                ${prefix}CODE.PUT_DEFINITION('DIFFER', p_schema, p_table, l_passed || '; since when is not known, and changes may '
                    || 'have passed it by; load the table again', NULL);
            END IF;
        END IF;
        DELETE FROM ${prefix}INFO i WHERE i.NAME = 'unfit ' || p_schema || '.' || p_table;
        COMMIT;
    END CHECK_TABLE;

    PROCEDURE NOTE_UNFIT(p_schema VARCHAR2, p_table VARCHAR2, p_why VARCHAR2) IS
        l_name VARCHAR2(400) := 'unfit ' || p_schema || '.' || p_table;
        l_noted PLS_INTEGER;
    BEGIN
        SELECT COUNT(*) INTO l_noted FROM ${prefix}INFO i
        WHERE i.NAME = l_name AND DBMS_LOB.COMPARE(i.VALUE, TO_CLOB(p_why)) = 0;
        IF l_noted = 0 THEN
            DELETE FROM ${prefix}INFO i WHERE i.NAME = l_name;
            INSERT INTO ${prefix}INFO (NAME, VALUE) VALUES (l_name, p_why);
            ${prefix}CODE.PUT_DEFINITION('DIFFER', p_schema, p_table,
                'it cannot be captured any more as it is now: ' || p_why || '; change it, and load it again', NULL);
            COMMIT;
        END IF;
    END NOTE_UNFIT;

    PROCEDURE CHECK_STRUCTURE IS
        l_code PLS_INTEGER;
        l_fault VARCHAR2(2000);
    BEGIN
        FOR t IN (SELECT x.SCHEMANAME, x.TABLENAME FROM ${prefix}TABLES x ORDER BY x.REPL_KEY) LOOP
            BEGIN
                CHECK_TABLE(t.SCHEMANAME, t.TABLENAME);
            EXCEPTION
                WHEN OTHERS THEN
                    -- The other tables go on; this one comes again.
                    l_code := SQLCODE;
                    l_fault := SUBSTRB(SQLERRM, 1, 1900);
                    ROLLBACK;
                    l_fault := NVL(${prefix}CAPTURE.UNFIT(t.SCHEMANAME, t.TABLENAME), l_fault);
                    -- Locked by others, a deadlock, or full: it comes again the next time.
                    IF l_code NOT IN (-54, -60, -4021, -30006, -1653, -1654, -30036) THEN
                        NOTE_UNFIT(t.SCHEMANAME, t.TABLENAME, l_fault);
                    END IF;
            END;
        END LOOP;
        DELETE FROM ${prefix}CURRENT_TABLES k
        WHERE NOT EXISTS (SELECT 1 FROM ${prefix}TABLES t WHERE t.SCHEMANAME = k.SCHEMANAME AND t.TABLENAME = k.RELNAME);
        COMMIT;
    END CHECK_STRUCTURE;

    -- Queues TRUNCATE or DIFFER of a captured table. p_cascade: over how many levels tables lose rows with it that refer to it ON
    -- DELETE CASCADE; their items come first.
    PROCEDURE PUT_LOSS(p_action VARCHAR2, p_schema VARCHAR2, p_table VARCHAR2, p_why VARCHAR2, p_cascade PLS_INTEGER) IS
    BEGIN
        FOR f IN (
            WITH DEPENDENTS (OWNER, TABLE_NAME, DEPTH) AS (
                SELECT x.SCHEMANAME, x.TABLENAME, 0 FROM ${prefix}TABLES x WHERE x.SCHEMANAME = p_schema AND x.TABLENAME = p_table
                UNION ALL
                SELECT k.OWNER, k.TABLE_NAME, d.DEPTH + 1
                FROM DEPENDENTS d
                JOIN ALL_CONSTRAINTS p ON p.OWNER = d.OWNER AND p.TABLE_NAME = d.TABLE_NAME
                JOIN ALL_CONSTRAINTS k ON k.R_OWNER = p.OWNER AND k.R_CONSTRAINT_NAME = p.CONSTRAINT_NAME
                WHERE k.CONSTRAINT_TYPE = 'R' AND k.STATUS = 'ENABLED' AND k.DELETE_RULE = 'CASCADE'
                  AND (k.OWNER <> p.OWNER OR k.TABLE_NAME <> p.TABLE_NAME) AND d.DEPTH < p_cascade
            )
            SELECT t.SCHEMANAME, t.TABLENAME, MAX(d.DEPTH) AS DEPTH
            FROM DEPENDENTS d
            JOIN ${prefix}TABLES t ON t.SCHEMANAME = d.OWNER AND t.TABLENAME = d.TABLE_NAME
            GROUP BY t.SCHEMANAME, t.TABLENAME
            ORDER BY 3 DESC, 1, 2
        ) LOOP
            ${prefix}CODE.PUT_DEFINITION(p_action, f.SCHEMANAME, f.TABLENAME, p_why, NULL);
        END LOOP;
    END PUT_LOSS;

    PROCEDURE ON_DDL(p_event VARCHAR2, p_schema VARCHAR2, p_table VARCHAR2, p_statement VARCHAR2) IS
        c_lost CONSTANT VARCHAR2(120) :=
            'a partition was dropped, truncated or exchanged, or moved without some rows; load the table again';
        l_statement VARCHAR2(32767) := UPPER(p_statement);
        l_registered PLS_INTEGER;
        l_cascade PLS_INTEGER := 0;
        l_other VARCHAR2(400);
    BEGIN
        IF ${prefix}ORIGIN.IS_SILENT THEN
            RETURN;
        END IF;
        SELECT COUNT(*) INTO l_registered FROM ${prefix}TABLES t WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table;
        IF l_registered = 0 THEN
            RETURN;
        END IF;
        IF REGEXP_LIKE(l_statement, '[[:space:]]CASCADE') THEN
            l_cascade := 20;
        END IF;
        IF p_event = 'TRUNCATE' THEN
            PUT_LOSS('TRUNCATE', p_schema, p_table, NULL, l_cascade);
        ELSIF REGEXP_LIKE(
            l_statement, '(DROP|TRUNCATE|EXCHANGE)[[:space:]]+(SUB)?PARTITION|INCLUDING[[:space:]]+ROWS'
        ) THEN
            -- Rows came or went that no trigger saw, of the table that an exchange names as well.
            PUT_LOSS('DIFFER', p_schema, p_table, c_lost, l_cascade);
            l_other := REPLACE(REGEXP_SUBSTR(l_statement, 'WITH[[:space:]]+TABLE[[:space:]]+([^[:space:];]+)', 1, 1, 'c', 1), '"');
            FOR t IN (
                SELECT x.SCHEMANAME, x.TABLENAME FROM ${prefix}TABLES x
                WHERE l_other IN (UPPER(x.TABLENAME), UPPER(x.SCHEMANAME || '.' || x.TABLENAME))
            ) LOOP
                PUT_LOSS('DIFFER', t.SCHEMANAME, t.TABLENAME, c_lost, 0);
            END LOOP;
        END IF;
        UPDATE ${prefix}TABLES t SET t.STATUS = 'CREATING'
        WHERE t.SCHEMANAME = p_schema AND t.TABLENAME = p_table AND p_event IN ('CREATE', 'ALTER', 'RENAME');
    END ON_DDL;
END ${prefix}STRUCTURE;
/
