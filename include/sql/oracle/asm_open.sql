-- Opens a file of ASM for reading.
-- Called by: sluice.vendors.oracle.source.asm.Disks.
-- Binds: name, kind, block_size; out: handle, physical_size, blocks.
-- Result: none.
-- Privileges: SYSDBA on the ASM instance.
-- Oldest version: Oracle 12.2.
BEGIN
    SYS.DBMS_DISKGROUP.OPEN(:name, 'r', :kind, :block_size, :handle, :physical_size, :blocks);
END;
