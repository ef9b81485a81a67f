-- A row that transactions of loaders can lock; nothing when it is there. Placeholders: ${prefix}, ${schema}.
-- Parameter: name. Privileges: INSERT on LOCKS.
INSERT IGNORE INTO ${schema}.${prefix}locks (name) VALUES (%(name)s)
