-- The files of a disk group with their folders, at all levels.
-- Called by: sluice.vendors.oracle.source.asm.Disks.
-- Binds: disk_group, without its plus sign.
-- Result: path below the disk group, blocks, bytes of a block, time of the last change in seconds since 1970.
-- Privileges: SYSDBA on the ASM instance.
-- Oldest version: Oracle 12.2.
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
