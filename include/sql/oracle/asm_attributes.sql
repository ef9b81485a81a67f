-- The kind and the size of a file of ASM.
-- Called by: sluice.vendors.oracle.source.asm.Disks.
-- Binds: name; out: kind, blocks (of a redo log without its first block, which ASM does not count), block_size.
-- Result: none.
-- Privileges: SYSDBA on the ASM instance.
-- Oldest version: Oracle 12.2.
BEGIN
    SYS.DBMS_DISKGROUP.GETFILEATTR(:name, :kind, :blocks, :block_size);
END;
