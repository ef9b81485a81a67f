-- Removes all objects of a prefix. Triggers first: one without its packages would fail its statements.
-- Called by: sluice.vendors.oracle.source.resources; or a person, as the account that captures.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Result: none. Missing objects are passed over.
-- Privileges: none beyond the account's own.
-- Oldest version: Oracle 12.2.
WHENEVER SQLERROR EXIT FAILURE ROLLBACK

DECLARE
    PROCEDURE remove(p_type VARCHAR2, p_name VARCHAR2, p_options VARCHAR2 DEFAULT NULL) IS
        l_found PLS_INTEGER;
    BEGIN
        SELECT COUNT(*) INTO l_found FROM USER_OBJECTS o WHERE o.OBJECT_TYPE = p_type AND o.OBJECT_NAME = p_name;
        IF l_found > 0 THEN
            EXECUTE IMMEDIATE 'DROP ' || p_type || ' ' || DBMS_ASSERT.ENQUOTE_NAME(p_name, FALSE) || p_options;
        END IF;
    END remove;

BEGIN
    remove('TRIGGER', '${prefix}DDL');
    -- Whatever their names: a table that was dropped and flashed back has another one. Those of a table in the recycle bin go with it.
    FOR g IN (
        SELECT DISTINCT u.TRIGGER_NAME
        FROM USER_TRIGGERS u
        JOIN USER_SOURCE s ON s.NAME = u.TRIGGER_NAME AND s.TYPE = 'TRIGGER' AND INSTR(s.TEXT, ' ${prefix}CODE.PUT_ITEM') > 0
        WHERE SUBSTR(u.TABLE_NAME, 1, 4) <> 'BIN$'
    ) LOOP
        remove('TRIGGER', g.TRIGGER_NAME);
    END LOOP;
    remove('PACKAGE', '${prefix}STRUCTURE');
    remove('PACKAGE', '${prefix}CAPTURE');
    remove('PACKAGE', '${prefix}CODE');
    remove('PACKAGE', '${prefix}ORIGIN');
    remove('VIEW', '${prefix}COLS_VIEW');
    remove('TABLE', '${prefix}ITEMS', ' PURGE');
    remove('TABLE', '${prefix}TABLES', ' PURGE');
    remove('TABLE', '${prefix}CURRENT_TABLES', ' PURGE');
    remove('TABLE', '${prefix}DEBUG_TABLE', ' PURGE');
    remove('TABLE', '${prefix}LONGS_TABLE', ' PURGE');
    remove('TABLE', '${prefix}INFO', ' PURGE');
    remove('SEQUENCE', '${prefix}SEQ');
END;
/
