-- The CHECKPOINT tables of a database, of any prefix: their names end so, and they have all the columns.
-- Called by: a comparison, on the slave.
-- Parameter: here, the database.
-- Result: their names, ordered.
-- Privileges: any on the tables.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
SELECT table_name FROM information_schema.columns
WHERE table_schema = %(here)s AND table_name LIKE '%%checkpoint'
    AND column_name IN ('slave', 'epoch', 'position', 'target', 'slice_key', 'changes', 'tables')
GROUP BY table_name HAVING COUNT(*) = 7 ORDER BY table_name
