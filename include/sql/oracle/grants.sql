-- Grants an account everything that it needs to capture a master's tables. Its packages have no privileges from roles.
-- Called by: an administrator, after the account was made, in the pluggable database with the tables. For each table:
--   GRANT SELECT, FLASHBACK ON SHOP.ORDERS TO ${account};
--   If policies hide rows or values from accounts: GRANT EXEMPT ACCESS POLICY, EXEMPT REDACTION POLICY TO ${account};
-- Placeholders: ${account}.
-- Result: none.
-- Privileges: SYSDBA for the views of SYS.
-- Oldest version: Oracle 12.2.

-- Its own objects. It needs a quota as well: ALTER USER ... QUOTA ... ON ...
GRANT CREATE SESSION, CREATE TABLE, CREATE SEQUENCE, CREATE VIEW, CREATE PROCEDURE, CREATE TRIGGER TO ${account};
-- Triggers on tables of others.
GRANT CREATE ANY TRIGGER TO ${account};
-- The DDL trigger; may be left out, then TRUNCATE is not noticed.
GRANT ADMINISTER DATABASE TRIGGER TO ${account};
-- Positions.
GRANT SELECT ON SYS.GV_$TRANSACTION TO ${account};
GRANT SELECT ON SYS.GV_$DATABASE TO ${account};
GRANT SELECT ON SYS.GV_$INSTANCE TO ${account};
GRANT SELECT ON SYS.V_$THREAD TO ${account};
GRANT SELECT ON SYS.V_$DATABASE TO ${account};
GRANT SELECT ON SYS.V_$DATABASE_INCARNATION TO ${account};
GRANT SELECT ON SYS.V_$PDBS TO ${account};
GRANT SELECT ON SYS.V_$PDB_INCARNATION TO ${account};
GRANT SELECT ON SYS.DBA_2PC_PENDING TO ${account};
-- Blocks and comparisons see tables as of one moment; tables are compared by hashes; installations do not meet.
GRANT EXECUTE ON SYS.DBMS_FLASHBACK TO ${account};
GRANT EXECUTE ON SYS.DBMS_CRYPTO TO ${account};
GRANT EXECUTE ON SYS.DBMS_LOCK TO ${account};
-- What its packages call; PUBLIC has it unless somebody took it away.
GRANT EXECUTE ON SYS.DBMS_APPLICATION_INFO TO ${account};
GRANT EXECUTE ON SYS.DBMS_ASSERT TO ${account};
GRANT EXECUTE ON SYS.DBMS_LOB TO ${account};
GRANT EXECUTE ON SYS.DBMS_RANDOM TO ${account};
GRANT EXECUTE ON SYS.DBMS_TRANSACTION TO ${account};
GRANT EXECUTE ON SYS.UTL_RAW TO ${account};
GRANT EXECUTE ON SYS.UTL_ENCODE TO ${account};
-- Code that runs with the rights of whoever calls it (AUTHID CURRENT_USER, BEQUEATH CURRENT_USER) gets none of these: an
-- owner of tables could put it behind them. ORA-01927: PUBLIC has it no more.
REVOKE INHERIT PRIVILEGES ON USER ${account} FROM PUBLIC;
