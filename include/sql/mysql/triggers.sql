-- The triggers of tables. Called by: what prepares a slave. Placeholder: ${tables} the condition on event_object_schema and
-- event_object_table. Parameters: those of ${tables}. Result: database, table, trigger. Privileges: TRIGGER on the tables.
SELECT event_object_schema, event_object_table, trigger_name FROM information_schema.triggers WHERE ${tables}
