-- Package ORIGIN: decides whether a session's changes are captured. Those of applications are; those that an apply of
-- another replication writes are only captured if the configuration passes them on. So two-way replication does not loop.
-- Called by: sluice.vendors.oracle.source.resources; or a person after resources_v1.sql. The triggers call it. An apply
--   names the replication whose changes it writes, as any session may:
--   EXECUTE DBMS_APPLICATION_INFO.SET_CLIENT_INFO('sluice AB_')
--   It has effect only for the account that owns this package, and for those to which it grants:
--   GRANT EXECUTE ON ${prefix}ORIGIN TO SLUICE_APPLY;
--   Otherwise any account could hide its changes in this way.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE PROCEDURE.
-- Oldest version: Oracle 12.2.

CREATE OR REPLACE NONEDITIONABLE PACKAGE ${prefix}ORIGIN AUTHID DEFINER AS
    -- The replication whose changes this session makes, such as AB_; NULL: they are its own.
    FUNCTION NAMED RETURN VARCHAR2;
    -- Whether what this session changes is not captured.
    FUNCTION IS_SILENT RETURN BOOLEAN;
END ${prefix}ORIGIN;
/

-- The package has no variables: otherwise a session that has used it gets ORA-04068 when a new release compiles the package.
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
