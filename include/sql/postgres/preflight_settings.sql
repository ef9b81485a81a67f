-- Settings under which statements of the application fail because of the capture, or are not captured.
-- Called by: the preflight, on the master.
-- Result, one row each: name, value with unit, whose it is, and the statement that takes it back; NULL if it came with the
--   server's command line or environment.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT found.name, found.value, found.place,
       CASE WHEN found.place <> 'SYSTEM' THEN 'ALTER ' || found.place || ' RESET ' || found.name
            WHEN found.source = 'configuration file' THEN 'ALTER SYSTEM SET ' || found.name || ' = '
                 || CASE found.name WHEN 'temp_file_limit' THEN '-1' ELSE 'origin' END || '; SELECT pg_reload_conf()' END
FROM (
    SELECT split_part(c.line, '=', 1) AS name, split_part(c.line, '=', 2) AS value,
           concat_ws(' IN ', 'ROLE ' || CASE WHEN s.setrole = 0 THEN NULLIF('ALL', CASE WHEN s.setdatabase <> 0 THEN 'ALL' END)
                                             ELSE quote_ident(pg_catalog.pg_get_userbyid(s.setrole)) END,
                     'DATABASE ' || (SELECT quote_ident(d.datname) FROM pg_catalog.pg_database d WHERE d.oid = s.setdatabase)) AS place,
           'catalogue' AS source
    FROM pg_catalog.pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS c (line)
    WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()))
      AND pg_catalog.pg_get_userbyid(s.setrole) <> current_user
    UNION ALL
    SELECT g.name, g.setting || coalesce(g.unit, ''), 'SYSTEM', g.source FROM pg_catalog.pg_settings g
    WHERE g.source IN ('configuration file', 'command line', 'environment variable')
) found
WHERE (found.name = 'temp_file_limit' AND found.value !~ '^-1')
   OR (found.name = 'session_replication_role' AND found.value = 'replica')
ORDER BY found.name, found.place
