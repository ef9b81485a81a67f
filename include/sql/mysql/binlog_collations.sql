-- The character sets of collations, by the numbers that the binary log has.
-- Called by: sluice.vendors.mysql.binlog.charsets.
-- Placeholder: ${source} the view of information_schema that has them all.
-- Result: number, character set.
-- Privileges: none.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT id, character_set_name FROM information_schema.${source} WHERE id IS NOT NULL
