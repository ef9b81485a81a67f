-- Removes the event triggers of a prefix, which belong to a superuser; the account removes the rest (uninstall.sql).
-- Called by: ./sluice remove, as the administrator; by hand:
--   sed -e 's/${prefix}/demo_/g' -e 's/${schema}/sluice/g' event_triggers_remove.sql | psql -1 -v ON_ERROR_STOP=1 DATABASE
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none. Privileges: superuser. Oldest version:
--   PostgreSQL 14.

-- Names mean PostgreSQL's own: the account may be able to create in a schema that the administrator's search_path names.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $sluice$
DECLARE
    mark text := left(md5($s$ ${schema}$s$::regnamespace::text), 8);
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['ddl_end_', 'ddl_drop_', 'ddl_rewrite_'] LOOP
        EXECUTE format('DROP EVENT TRIGGER IF EXISTS %I', '${prefix}' || name || mark);
    END LOOP;
END
$sluice$;
