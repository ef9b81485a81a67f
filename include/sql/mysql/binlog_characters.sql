-- The characters of all bytes of a character set of one byte, in the order of the bytes.
-- Called by: sluice.vendors.mysql.binlog.charsets.
-- Placeholder: ${charset} the character set.
-- Result: the byte, its character.
-- Privileges: none.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
WITH RECURSIVE bytes AS (SELECT 0 AS number UNION ALL SELECT number + 1 FROM bytes WHERE number < 255)
SELECT number, CONVERT(CONVERT(UNHEX(LPAD(HEX(number), 2, '0')) USING ${charset}) USING utf8mb4)
FROM bytes ORDER BY number
