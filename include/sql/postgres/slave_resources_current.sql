-- Whether the slave's tables exist as this version needs them.
-- Called by: the callers of slave_resources, before it.
-- Parameters: checkpoint, blocks, throttle, definitions, the tables' names with their schema, quoted.
-- Result: one boolean.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT EXISTS (SELECT FROM pg_catalog.pg_attribute
               WHERE attrelid = to_regclass(%(blocks)s) AND attname = 'retry_at')
   AND EXISTS (SELECT FROM pg_catalog.pg_attribute
               WHERE attrelid = to_regclass(%(checkpoint)s) AND attname = 'tables')
   AND to_regclass(%(throttle)s) IS NOT NULL AND to_regclass(%(definitions)s) IS NOT NULL
