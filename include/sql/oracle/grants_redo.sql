-- Grants an account what the watch over archived redo logs reads (redo.conn_id). The account can change nothing.
-- Called by: an administrator, in the root of a container database, for a common account.
-- Placeholders: ${account}.
-- Result: none.
-- Privileges: SYSDBA.
-- Oldest version: Oracle 12.2.
GRANT CREATE SESSION TO ${account};
GRANT SELECT ON SYS.V_$ARCHIVED_LOG TO ${account};
GRANT SELECT ON SYS.V_$DATABASE_INCARNATION TO ${account};
GRANT SELECT ON SYS.V_$RECOVERY_FILE_DEST TO ${account};
