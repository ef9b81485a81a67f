-- The trigger that records DDL in its own transaction: TRUNCATE and changes of partitions, which nothing else shows, and
-- changes of definitions before the next comparison finds them.
-- Called by: sluice.vendors.oracle.source.resources, or a person after structure.sql, if the account has the privilege.
--   Without the trigger TRUNCATE is not captured.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Result: none.
-- Privileges: ADMINISTER DATABASE TRIGGER.
-- Oldest version: Oracle 12.2.
--
-- ON DATABASE, because a schema's trigger fires only for DDL of that schema's own user, not for an administrator's. It
-- calls Sluice's objects by dynamic SQL, so that it depends on none: if it became invalid, every DDL of the database would
-- fail. Only DDL of a captured table fails, if it cannot be recorded.
CREATE OR REPLACE NONEDITIONABLE TRIGGER ${prefix}DDL
AFTER CREATE OR ALTER OR DROP OR RENAME OR TRUNCATE ON DATABASE
DECLARE
    l_event VARCHAR2(128);
    l_owner VARCHAR2(128);
    l_name VARCHAR2(128);
    l_captured PLS_INTEGER := 0;
    l_texts ORA_NAME_LIST_T;
    l_pieces PLS_INTEGER;
    l_statement VARCHAR2(4000);
    no_such_table EXCEPTION;
    PRAGMA EXCEPTION_INIT(no_such_table, -942);
BEGIN
    -- Of other objects nothing is read, not even their names, which may be longer.
    IF ORA_DICT_OBJ_TYPE = 'TABLE' THEN
        l_event := ORA_SYSEVENT;
        l_owner := ORA_DICT_OBJ_OWNER;
        l_name := ORA_DICT_OBJ_NAME;
        BEGIN
            EXECUTE IMMEDIATE 'SELECT COUNT(*) FROM ${prefix}TABLES t WHERE t.SCHEMANAME = :1 AND t.TABLENAME = :2'
                INTO l_captured USING l_owner, l_name;
        EXCEPTION
            WHEN no_such_table THEN
                NULL; -- somebody removed TABLES, and not this
        END;
    END IF;
    IF l_captured > 0 THEN
        l_pieces := ORA_SQL_TXT(l_texts);
        FOR l_piece IN 1 .. NVL(l_pieces, 0) LOOP
            l_statement := SUBSTRB(l_statement || l_texts(l_piece), 1, 4000);
            EXIT WHEN LENGTHB(l_statement) = 4000;
        END LOOP;
        EXECUTE IMMEDIATE 'BEGIN ${prefix}STRUCTURE.ON_DDL(:1, :2, :3, :4); END;'
            USING l_event, l_owner, l_name, l_statement;
    END IF;
END;
/
