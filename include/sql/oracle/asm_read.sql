-- Reads blocks of an open file of ASM, 32,767 bytes at most.
-- Called by: sluice.vendors.oracle.source.asm.Disks. Binds: handle, block (from 1 on); in and out: length, in bytes; out: data.
-- Result: none. Privileges: SYSDBA on the ASM instance. Oldest version: Oracle 12.2.
BEGIN
    SYS.DBMS_DISKGROUP.READ(:handle, :block, :length, :data);
END;
