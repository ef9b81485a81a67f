-- Closes a file of ASM.
-- Called by: sluice.vendors.oracle.source.asm.Disks.
-- Binds: handle.
-- Result: none.
-- Privileges: SYSDBA on the ASM instance.
-- Oldest version: Oracle 12.2.
BEGIN
    SYS.DBMS_DISKGROUP.CLOSE(:handle);
END;
