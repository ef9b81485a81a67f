-- Grants an account what a slave needs: its tables, and those that Sluice keeps there. REJECTS has an identity, which is a sequence.
-- Called by: an administrator, after the account was made, in the pluggable database. It needs a quota as well.
-- Tables in schemas of others besides: CREATE ANY TABLE and CREATE ANY INDEX make them; on each that is there SELECT, INSERT, UPDATE,
--   DELETE, ALTER, INDEX and REFERENCES. TRUNCATE and DROP of such a table need DROP ANY TABLE.
-- Placeholders: ${account}. Result: none. Privileges: SYSDBA for the packages of SYS. Oldest version: Oracle 12.2.
GRANT CREATE SESSION, CREATE TABLE, CREATE SEQUENCE TO ${account};
-- Loads and applies keep out of one another's way; tables are compared by hashes.
GRANT EXECUTE ON SYS.DBMS_LOCK TO ${account};
GRANT EXECUTE ON SYS.DBMS_CRYPTO TO ${account};
-- PUBLIC has these unless somebody took them away.
GRANT EXECUTE ON SYS.DBMS_APPLICATION_INFO TO ${account};
GRANT EXECUTE ON SYS.DBMS_LOB TO ${account};
GRANT EXECUTE ON SYS.DBMS_RANDOM TO ${account};
GRANT EXECUTE ON SYS.DBMS_STATS TO ${account};
GRANT EXECUTE ON SYS.UTL_RAW TO ${account};
