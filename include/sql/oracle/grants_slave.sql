-- Grants an account what it needs on a slave, in its own schema. CREATE SEQUENCE is for the identity column of REJECTS.
-- Called by: an administrator, after the account was made, in the pluggable database. The account needs a quota as well.
--   For tables in schemas of others: CREATE ANY TABLE and CREATE ANY INDEX to create them; on each existing table
--   SELECT, INSERT, UPDATE, DELETE, ALTER, INDEX and REFERENCES. TRUNCATE and DROP of such a table need DROP ANY TABLE.
-- Placeholders: ${account}.
-- Result: none.
-- Privileges: SYSDBA for the packages of SYS.
-- Oldest version: Oracle 12.2.
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
-- Code that runs with the rights of whoever calls it (AUTHID CURRENT_USER, BEQUEATH CURRENT_USER) gets none of these: an
-- owner of tables could put it behind them. ORA-01927: PUBLIC has it no more.
REVOKE INHERIT PRIVILEGES ON USER ${account} FROM PUBLIC;
