-- Whose changes are captured: those of the database's own sessions, and of replications that are passed on. What other
-- applies write is not, so that replication in both directions does not loop.
-- Called by: a person after resources_v1.sql; the triggers ask it. An apply says whose changes it makes, as any session may:
--   EXECUTE DBMS_APPLICATION_INFO.SET_CLIENT_INFO('sluice AB_')
-- That counts for the account that has this package, and for those to which it grants:
--   GRANT EXECUTE ON ${prefix}ORIGIN TO SLUICE_APPLY;
-- Anybody else could hide his changes by it.
-- Placeholders: ${prefix} as in resources_v1.sql. Result: none.
-- Privileges: CREATE PROCEDURE. Oldest version: Oracle 12.2.

CREATE OR REPLACE NONEDITIONABLE PACKAGE ${prefix}ORIGIN AUTHID DEFINER AS
    -- The replication whose changes this session makes, such as AB_; NULL: they are its own.
    FUNCTION NAMED RETURN VARCHAR2;
    -- Whether what this session changes is not captured.
    FUNCTION IS_SILENT RETURN BOOLEAN;
END ${prefix}ORIGIN;
/

-- Nothing is kept in variables: a session that has any gets ORA-04068 when a new release compiles the package.
CREATE OR REPLACE NONEDITIONABLE PACKAGE BODY ${prefix}ORIGIN AS
    FUNCTION NAMED RETURN VARCHAR2 IS
        l_said VARCHAR2(64) := SYS_CONTEXT('USERENV', 'CLIENT_INFO');
        l_user VARCHAR2(128) := SYS_CONTEXT('USERENV', 'SESSION_USER');
        l_granted PLS_INTEGER;
    BEGIN
        IF l_said IS NULL OR SUBSTR(l_said, 1, 7) <> 'sluice ' THEN
            RETURN NULL;
        END IF;
        IF l_user <> SYS_CONTEXT('USERENV', 'CURRENT_USER') THEN
            SELECT COUNT(*) INTO l_granted FROM USER_TAB_PRIVS_MADE p
            WHERE p.TABLE_NAME = '${prefix}ORIGIN' AND p.PRIVILEGE = 'EXECUTE' AND p.GRANTEE = l_user;
            IF l_granted = 0 THEN
                RETURN NULL;
            END IF;
        END IF;
        RETURN SUBSTR(l_said, 8);
    END NAMED;

    FUNCTION IS_SILENT RETURN BOOLEAN IS
        l_origin VARCHAR2(64) := NAMED;
        l_passed PLS_INTEGER;
    BEGIN
        IF l_origin IS NULL THEN
            RETURN FALSE;
        END IF;
        SELECT COUNT(*) INTO l_passed FROM ${prefix}INFO i
        WHERE i.NAME = 'cascade' AND DBMS_LOB.INSTR(i.VALUE, ',' || l_origin || ',') > 0;
        RETURN l_passed = 0;
    END IS_SILENT;
END ${prefix}ORIGIN;
/
