-- The identity of the database and of its incarnation, its role, and its clock.
-- Called by: sluice.vendors.oracle.source.server.Server.incarnation and time.
-- Binds: none.
-- Result: DBID, GUID of the pluggable database, RESETLOGS_ID, PDB_INCARNATION#, role, open mode, time in UTC.
-- Privileges: SELECT on SYS.V_$DATABASE, V_$DATABASE_INCARNATION, V_$PDBS, V_$PDB_INCARNATION.
-- Oldest version: Oracle 12.2.
SELECT d.DBID,
       (SELECT RAWTOHEX(p.GUID) FROM V$PDBS p WHERE p.CON_ID = SYS_CONTEXT('USERENV', 'CON_ID')) AS PDB,
       (SELECT i.RESETLOGS_ID FROM V$DATABASE_INCARNATION i WHERE i.STATUS = 'CURRENT') AS RESETLOGS,
       (SELECT MAX(c.PDB_INCARNATION#) FROM V$PDB_INCARNATION c
        WHERE c.STATUS = 'CURRENT' AND c.CON_ID = SYS_CONTEXT('USERENV', 'CON_ID')) AS PDB_INCARNATION,
       d.DATABASE_ROLE, d.OPEN_MODE,
       TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'YYYY-MM-DD"T"HH24:MI:SS.FF6"Z"') AS TIME
FROM V$DATABASE d
