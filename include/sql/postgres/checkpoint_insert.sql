-- Inserts the row of a slave, in state UNCONFIGURED, unless it exists.
-- Parameter: slave.
INSERT INTO ${schema}.${prefix}checkpoint (slave, state) VALUES (%(slave)s, 'UNCONFIGURED') ON CONFLICT DO NOTHING
