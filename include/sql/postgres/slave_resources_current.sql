-- Whether the slave's tables are there as this version wants them. Called by: the initial update, before slave_resources.
-- Placeholders: ${prefix}, ${schema}. Result: one boolean. Privileges: none. Oldest version: PostgreSQL 13.
SELECT EXISTS (SELECT FROM pg_catalog.pg_attribute
               WHERE attrelid = to_regclass($name$${schema}.${prefix}blocks$name$) AND attname = 'retry_at')
   AND to_regclass($name$${schema}.${prefix}throttle$name$) IS NOT NULL
