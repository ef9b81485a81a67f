-- The first row of a slave, state UNCONFIGURED; nothing when it is there. Parameter: slave.
INSERT INTO ${schema}.${prefix}checkpoint (slave, state) VALUES (%(slave)s, 'UNCONFIGURED') ON CONFLICT DO NOTHING
