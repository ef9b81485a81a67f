-- Whether the slave's tables are there. Parameter: relation, the quoted name of CHECKPOINT or THROTTLE. Result: one boolean.
SELECT to_regclass(%(relation)s) IS NOT NULL
