-- What this account may do in this database, and what the server is.
-- Called by: the preflight, on master and slave.
-- Parameter: functions text[], names of PostgreSQL's own functions.
-- Result, one row: account and database, quoted; superuser (bool); text[] of other roles, quoted, that it may become
--   and that are superusers or may run programs or reach files on the server; CONNECT, TEMPORARY, CREATE on the
--   database (bools); USAGE of the language plpgsql (NULL: there is none); pg_read_all_stats; in recovery; encoding;
--   version, e.g. 180000; connections that are left to the account, and the limit that says so; the functions of the
--   list that it may not execute; the server's clock.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
WITH me AS (
    SELECT r.*, d.datname, d.oid AS database, d.datconnlimit, pg_catalog.pg_encoding_to_char(d.encoding)::text AS encoding
    FROM pg_catalog.pg_roles r, pg_catalog.pg_database d
    WHERE r.rolname = current_user AND d.datname = current_database()
), rooms (room, name) AS (
    SELECT current_setting('max_connections')::int
           - CASE WHEN me.rolsuper THEN 0 ELSE current_setting('superuser_reserved_connections')::int
                  + coalesce(current_setting('reserved_connections', true)::int, 0) END
           - (SELECT coalesce(sum(s.numbackends), 0) FROM pg_catalog.pg_stat_database s)::int,
           'max_connections of the server'
    FROM me
    UNION ALL
    SELECT me.rolconnlimit - (SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.usename = current_user)::int,
           format('the connection limit of the role %%I', me.rolname)
    FROM me WHERE me.rolconnlimit >= 0 AND NOT me.rolsuper
    UNION ALL
    SELECT me.datconnlimit - (SELECT s.numbackends FROM pg_catalog.pg_stat_database s WHERE s.datid = me.database),
           format('the connection limit of the database %%I', me.datname)
    FROM me WHERE me.datconnlimit >= 0 AND NOT me.rolsuper
)
SELECT format('%%I', me.rolname), format('%%I', me.datname), me.rolsuper,
       ARRAY(SELECT format('%%I', r.rolname) FROM pg_catalog.pg_roles r
             WHERE (r.rolsuper OR r.rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files'))
               AND NOT me.rolsuper AND pg_catalog.pg_has_role(current_user, r.oid, 'MEMBER') ORDER BY 1),
       pg_catalog.has_database_privilege(me.database, 'CONNECT'),
       pg_catalog.has_database_privilege(me.database, 'TEMPORARY'),
       pg_catalog.has_database_privilege(me.database, 'CREATE'),
       (SELECT pg_catalog.has_language_privilege(l.oid, 'USAGE') FROM pg_catalog.pg_language l WHERE l.lanname = 'plpgsql'),
       pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       pg_catalog.pg_is_in_recovery(), me.encoding, current_setting('server_version_num')::int,
       least_room.room, least_room.name,
       ARRAY(SELECT DISTINCT p.oid::regprocedure::text FROM pg_catalog.pg_proc p
             WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (%(functions)s::text[])
               AND NOT pg_catalog.has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1),
       clock_timestamp()
FROM me, LATERAL (SELECT room, name FROM rooms ORDER BY room LIMIT 1) AS least_room
