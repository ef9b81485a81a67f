-- Reads blocks of an open file of ASM, at most 32,767 bytes.
-- Called by: sluice.vendors.oracle.source.asm.Disks.
-- Binds: handle, block (counted from 1); in and out: length, in bytes; out: data.
-- Result: none.
-- Privileges: SYSDBA on the ASM instance.
-- Oldest version: Oracle 12.2.
BEGIN
    SYS.DBMS_DISKGROUP.READ(:handle, :block, :length, :data);
END;
