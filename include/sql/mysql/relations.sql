-- Which of some names a database uses, and for what. Placeholder: ${names} the condition. Parameters: those of ${names}.
-- Result: database, name, BASE TABLE or VIEW. Privileges: any on the tables.
SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE ${names}
