-- The trigger that notices DDL in its own transaction: TRUNCATE and partitions, which nothing else shows, at once; changes
-- of definitions before the next comparison.
-- Called by: a person after structure.sql, where the account has the privilege. Without it TRUNCATE is not noticed.
-- Placeholders: ${prefix} as in resources_v1.sql. Result: none.
-- Privileges: ADMINISTER DATABASE TRIGGER. Oldest version: Oracle 12.2.
--
-- ON DATABASE, because a schema's trigger fires only for DDL of that schema's own user, not for an administrator's.
CREATE OR REPLACE TRIGGER ${prefix}DDL
AFTER CREATE OR ALTER OR DROP OR RENAME OR TRUNCATE ON DATABASE
DECLARE
    l_texts ORA_NAME_LIST_T;
    l_pieces PLS_INTEGER;
    l_statement VARCHAR2(4000);
BEGIN
    IF ORA_DICT_OBJ_TYPE = 'TABLE' THEN
        l_pieces := ORA_SQL_TXT(l_texts);
        FOR l_piece IN 1 .. LEAST(NVL(l_pieces, 0), 10) LOOP
            l_statement := SUBSTRB(l_statement || l_texts(l_piece), 1, 4000);
        END LOOP;
        ${prefix}STRUCTURE.ON_DDL(ORA_SYSEVENT, ORA_DICT_OBJ_OWNER, ORA_DICT_OBJ_NAME, l_statement);
    END IF;
END;
/
