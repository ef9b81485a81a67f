-- The triggers of tables.
-- Called by: the preparation of a slave; its preflight checks.
-- Placeholder: ${tables} the condition on event_object_schema and event_object_table.
-- Parameters: those of ${tables}.
-- Result: database, table, trigger.
-- Privileges: TRIGGER on the tables.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT event_object_schema, event_object_table, trigger_name FROM information_schema.triggers WHERE ${tables}
