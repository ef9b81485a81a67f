-- Tables with their engines.
-- Called by: sluice.vendors.mysql.binlog.log, sluice.vendors.mysql.binlog.requirements.
-- Placeholder: ${tables} the condition on table_schema and table_name.
-- Parameters: those of ${tables}.
-- Result: database, table, BASE TABLE or SYSTEM VERSIONED, engine.
-- Privileges: any on the tables.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT table_schema, table_name, table_type, engine FROM information_schema.tables
WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND ${tables}
