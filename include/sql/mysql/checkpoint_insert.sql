-- The first row of a slave, state UNCONFIGURED; nothing when it is there. Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameter: slave. Privileges: INSERT on CHECKPOINT.
INSERT INTO ${schema}.${prefix}checkpoint (slave, state, message, updated_at)
VALUES (%(slave)s, 'UNCONFIGURED', '', ${clock})
ON DUPLICATE KEY UPDATE slave = slave
