-- Whose changes are not captured: a session of an apply says so of itself, that two-way replication does not loop.
-- Called by: a person after resources_v1.sql; the triggers ask it. Grant EXECUTE to the accounts of applies, to nobody else:
--   GRANT EXECUTE ON ${prefix}ORIGIN TO SLUICE_APPLY;
-- Placeholders: ${prefix} as in resources_v1.sql. Result: none.
-- Privileges: CREATE PROCEDURE. Oldest version: Oracle 12.2.

-- A package of its own, which a new release of the others does not compile again: that would forget what sessions said.
CREATE OR REPLACE PACKAGE ${prefix}ORIGIN AUTHID DEFINER AS
    -- From here on, what this session changes is not captured. To be called again in each transaction.
    PROCEDURE SILENCE;
    -- From here on it is.
    PROCEDURE SPEAK;
    FUNCTION IS_SILENT RETURN BOOLEAN;
END ${prefix}ORIGIN;
/

CREATE OR REPLACE PACKAGE BODY ${prefix}ORIGIN AS
    g_silent BOOLEAN := FALSE;

    PROCEDURE SILENCE IS
    BEGIN
        g_silent := TRUE;
    END SILENCE;

    PROCEDURE SPEAK IS
    BEGIN
        g_silent := FALSE;
    END SPEAK;

    FUNCTION IS_SILENT RETURN BOOLEAN IS
    BEGIN
        RETURN g_silent;
    END IS_SILENT;
END ${prefix}ORIGIN;
/
