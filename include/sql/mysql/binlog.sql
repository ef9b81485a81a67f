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
-- Result: database, table, BASE TABLE or SYSTEM VERSIONED, engine.
-- Privileges: any on the tables.
SELECT table_schema, table_name, table_type, engine FROM information_schema.tables
WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND ${tables}

-- name: binlog_sequences
-- Sequences.
-- Called by: sluice.vendors.mysql.binlog.requirements.
-- Placeholder: ${tables} the condition on table_schema and table_name.
-- Parameters: those of ${tables}.
-- Result: 1.
-- Privileges: any on the sequences.
SELECT 1 FROM information_schema.tables WHERE table_type = 'SEQUENCE' AND ${tables}

-- name: binlog_computed
-- Tables whose columns are all computed.
-- Called by: sluice.vendors.mysql.binlog.requirements.
-- Placeholder: ${tables} the condition on table_schema and table_name.
-- Parameters: those of ${tables}.
-- Result: database, table.
-- Privileges: any on the tables.
SELECT table_schema, table_name FROM information_schema.columns WHERE ${tables}
GROUP BY table_schema, table_name HAVING min(coalesce(generation_expression, '') <> '')
