-- The tables CHECKPOINT of a database: of those with such a name the ones with its columns. Parameter: here the database.
-- Result: their names, in order. Privileges: any on the tables.
SELECT table_name FROM information_schema.columns
WHERE table_schema = %(here)s AND table_name LIKE '%%checkpoint'
    AND column_name IN ('slave', 'epoch', 'position', 'target', 'slice_key', 'changes', 'tables')
GROUP BY table_name HAVING COUNT(*) = 7 ORDER BY table_name
