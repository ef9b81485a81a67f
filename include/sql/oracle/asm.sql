-- Files in ASM disk groups. Each statement is a section with its name.
-- Called by: sluice.vendors.oracle.source.asm.Disks.
-- Privileges: SYSDBA on the ASM instance.
-- Oldest version: Oracle 12.2.

-- name: asm_attributes
-- The kind and the size of a file of ASM.
-- Binds: name; out: kind, blocks (of a redo log without its first block, which ASM does not count), block_size.
-- Result: none.
BEGIN
    SYS.DBMS_DISKGROUP.GETFILEATTR(:name, :kind, :blocks, :block_size);
END;

-- name: asm_close
-- Closes a file of ASM.
-- Binds: handle.
-- Result: none.
BEGIN
    SYS.DBMS_DISKGROUP.CLOSE(:handle);
END;

-- name: asm_files
-- The files of a disk group with their folders, at all levels.
-- Binds: disk_group, without its plus sign.
-- Result: path below the disk group, blocks, bytes of a block, time of the last change in seconds since 1970.
SELECT SYS_CONNECT_BY_PATH(t.NAME, '/') AS PATH, t.BLOCKS, t.BLOCK_SIZE,
       ROUND((t.MODIFICATION_DATE - DATE '1970-01-01') * 86400) AS MODIFIED
FROM (SELECT a.NAME, a.PARENT_INDEX, a.REFERENCE_INDEX, a.ALIAS_DIRECTORY, f.BLOCKS, f.BLOCK_SIZE, f.MODIFICATION_DATE
      FROM V$ASM_ALIAS a
      JOIN V$ASM_DISKGROUP g ON g.GROUP_NUMBER = a.GROUP_NUMBER
      LEFT JOIN V$ASM_FILE f ON f.GROUP_NUMBER = a.GROUP_NUMBER AND f.FILE_NUMBER = a.FILE_NUMBER
                            AND f.INCARNATION = a.FILE_INCARNATION
      WHERE g.NAME = :disk_group) t
WHERE t.ALIAS_DIRECTORY = 'N'
START WITH MOD(t.PARENT_INDEX, POWER(2, 24)) = 0
CONNECT BY PRIOR t.REFERENCE_INDEX = t.PARENT_INDEX

-- name: asm_open
-- Opens a file of ASM for reading.
-- Binds: name, kind, block_size; out: handle, physical_size, blocks.
-- Result: none.
BEGIN
    SYS.DBMS_DISKGROUP.OPEN(:name, 'r', :kind, :block_size, :handle, :physical_size, :blocks);
END;

-- name: asm_read
-- Reads blocks of an open file of ASM, at most 32,767 bytes.
-- Binds: handle, block (counted from 1); in and out: length, in bytes; out: data.
-- Result: none.
BEGIN
    SYS.DBMS_DISKGROUP.READ(:handle, :block, :length, :data);
END;
