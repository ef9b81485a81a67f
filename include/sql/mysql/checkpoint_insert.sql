-- Inserts the row of a slave, in state UNCONFIGURED, unless it exists.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameter: slave.
-- Result: none.
-- Privileges: INSERT on CHECKPOINT.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
INSERT INTO ${schema}.${prefix}checkpoint (slave, state, message, updated_at)
VALUES (%(slave)s, 'UNCONFIGURED', '', ${clock})
ON DUPLICATE KEY UPDATE slave = slave
