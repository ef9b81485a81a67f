-- Removes all objects of a prefix: triggers first, so that no statement meets one without its packages.
-- Called by: sluice.vendors.oracle.source.resources; or a person, as the account that captures.
-- Placeholders: ${prefix} as in resources_v1.sql. Result: none. What is absent is passed over.
-- Privileges: none beyond the account's own. Oldest version: Oracle 12.2.
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

    -- Dynamic, because TABLES may be gone already. A trigger of that name that captures nothing is an application's.
    PROCEDURE remove_triggers IS
        l_found PLS_INTEGER;
        l_names SYS.ODCIVARCHAR2LIST;
    BEGIN
        SELECT COUNT(*) INTO l_found FROM USER_OBJECTS o WHERE o.OBJECT_NAME = '${prefix}TABLES';
        IF l_found > 0 THEN
            EXECUTE IMMEDIATE 'SELECT DISTINCT t.TRIGGER_NAME FROM ${prefix}TABLES t JOIN USER_SOURCE s'
                || ' ON s.NAME = t.TRIGGER_NAME AND s.TYPE = ''TRIGGER'' AND INSTR(s.TEXT, ''${prefix}CODE.PUT_ITEM'') > 0'
                BULK COLLECT INTO l_names;
            FOR l_place IN 1 .. l_names.COUNT LOOP
                remove('TRIGGER', l_names(l_place));
            END LOOP;
        END IF;
    END remove_triggers;
BEGIN
    remove('TRIGGER', '${prefix}DDL');
    remove_triggers;
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
