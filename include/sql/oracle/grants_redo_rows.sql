-- Grants an account what an initial update reads of a master whose changes come from its redo (master.conn_id).
-- Called by: an administrator, in the pluggable database with the tables. For each table besides:
--   GRANT SELECT, FLASHBACK ON SHOP.ORDERS TO ${account};
-- Placeholders: ${account}.
-- Result: none.
-- Privileges: SYSDBA.
-- Oldest version: Oracle 12.2.
GRANT CREATE SESSION TO ${account};
-- Which database it is, and of which incarnation.
GRANT SELECT ON SYS.V_$DATABASE TO ${account};
GRANT SELECT ON SYS.V_$DATABASE_INCARNATION TO ${account};
GRANT SELECT ON SYS.V_$PDBS TO ${account};
GRANT SELECT ON SYS.V_$PDB_INCARNATION TO ${account};
-- Which transactions began before the redo that is read, and whose they are.
GRANT SELECT ON SYS.GV_$TRANSACTION TO ${account};
GRANT SELECT ON SYS.GV_$SESSION TO ${account};
GRANT SELECT ON SYS.GV_$DATABASE TO ${account};
GRANT SELECT ON SYS.GV_$INSTANCE TO ${account};
GRANT SELECT ON SYS.V_$THREAD TO ${account};
GRANT SELECT ON SYS.DBA_2PC_PENDING TO ${account};
-- Blocks are read as of an SCN.
GRANT EXECUTE ON SYS.DBMS_FLASHBACK TO ${account};
-- Tables are compared by hashes.
GRANT EXECUTE ON SYS.DBMS_CRYPTO TO ${account};
-- Code that runs with the rights of whoever calls it (AUTHID CURRENT_USER, BEQUEATH CURRENT_USER) gets none of these: an
-- owner of tables could put it behind them. ORA-01927: PUBLIC has it no more.
REVOKE INHERIT PRIVILEGES ON USER ${account} FROM PUBLIC;
