-- Collations that are absent and cannot be created in this database.
-- Called by: the initial update, on the slave, before it creates tables.
-- Parameters: names text[]: quoted qualified names of collations; providers text[]: their provider if they have to be
--   created, else NULL (pairs).
-- Result: their names.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT w.name
FROM unnest(%(names)s::text[], %(providers)s::text[]) AS w (name, provider)
WHERE to_regcollation(w.name) IS NULL
  AND (w.provider IS NULL
       -- A server built without ICU has none of its collations but this one.
       OR w.provider = 'i' AND NOT EXISTS (SELECT FROM pg_catalog.pg_collation l
                                           WHERE l.collprovider = 'i' AND l.collname <> 'unicode'))
