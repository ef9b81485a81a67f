-- The binary log of a master. Each statement is a section with its name.
-- Oldest version: MariaDB 10.6, MySQL 8.0.

-- name: binlog_collations
-- The character sets of collations, by the numbers that the binary log has.
-- Called by: sluice.vendors.mysql.binlog.charsets.
-- Placeholder: ${source} the view of information_schema that has them all.
-- Result: number, character set.
-- Privileges: none.
SELECT id, character_set_name FROM information_schema.${source} WHERE id IS NOT NULL

-- name: binlog_characters
-- The characters of all bytes of a character set of one byte, in the order of the bytes.
-- Called by: sluice.vendors.mysql.binlog.charsets.
-- Placeholder: ${charset} the character set.
-- Result: the byte, its character.
-- Privileges: none.
WITH RECURSIVE bytes AS (SELECT 0 AS number UNION ALL SELECT number + 1 FROM bytes WHERE number < 255)
SELECT number, CONVERT(CONVERT(UNHEX(LPAD(HEX(number), 2, '0')) USING ${charset}) USING utf8mb4)
FROM bytes ORDER BY number

-- name: binlog_tables
-- Tables with their engines.
-- Called by: sluice.vendors.mysql.binlog.log, sluice.vendors.mysql.binlog.requirements.
-- Placeholder: ${tables} the condition on table_schema and table_name.
-- Parameters: those of ${tables}.
-- Result: database, table, BASE TABLE or SYSTEM VERSIONED, engine, 1 if not all columns are computed.
-- Privileges: any on the tables.
SELECT t.table_schema, t.table_name, t.table_type, t.engine, EXISTS (
  SELECT 1 FROM information_schema.columns c
  WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND coalesce(c.generation_expression, '') = '')
FROM (SELECT * FROM information_schema.tables WHERE ${tables}) t
WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')
