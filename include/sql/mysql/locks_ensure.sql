-- Inserts a row that transactions of loaders can lock, unless it exists.
-- Called by: a load job when it starts.
-- Placeholders: ${prefix}, ${schema}.
-- Parameter: name.
-- Result: none.
-- Privileges: INSERT on LOCKS.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
INSERT IGNORE INTO ${schema}.${prefix}locks (name) VALUES (%(name)s)
