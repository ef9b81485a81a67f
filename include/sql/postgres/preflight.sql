-- What an account and a server lack. Each statement is a section with its name.

-- name: preflight_account
-- What this account may do in this database, and what the server is.
-- Called by: the preflight, on master and slave. Parameter: functions text[], names of PostgreSQL's own functions.
--   Result, one row: account and database, quoted; superuser (bool); text[] of other roles, quoted, that it may become
--   and that are superusers or may run programs or reach files on the server; CONNECT, TEMPORARY, CREATE on the database
--   (bools); USAGE of the language plpgsql (NULL: there is none); pg_read_all_stats; in recovery; encoding; version, e.g.
--   180000; connections that are left to the account, and the limit that says so; the functions of the list that it may
--   not execute; the server's clock.
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

-- name: preflight_capture
-- Functions of capture triggers that the owner of a partitioned table may not execute, so that he could not create or
--   attach partitions.
-- Called by: the preflight, on a master with resources.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result, one row a function: quoted name with the schema, the
--   table's quoted name, its owner quoted.
-- Privileges: SELECT on ${prefix}captures.
-- Oldest version: PostgreSQL 13.
SELECT DISTINCT format('%I.%I()', pn.nspname, p.proname), format('%I.%I', n.nspname, c.relname), format('%I', r.rolname)
FROM ${schema}.${prefix}captures h
JOIN pg_catalog.pg_class c ON c.oid = h.relid AND c.relkind = 'p'
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
JOIN pg_catalog.pg_trigger g ON g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgname = ANY (h.triggers)
    AND g.tgtype & 1 = 1 -- FOR EACH ROW: each partition gets its own
JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid
JOIN pg_catalog.pg_namespace pn ON pn.oid = p.pronamespace
WHERE NOT pg_catalog.has_function_privilege(c.relowner, p.oid, 'EXECUTE')
ORDER BY 1

-- name: preflight_captures
-- Captures of other replications in this database whose account this account is not a member of: they would capture what
--   this account applies.
-- Called by: the preflight, on a slave. Result, one row a capture: the quoted name of its ITEMS, its account quoted.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT format('%I.%I', n.nspname, regexp_replace(c.relname, 'captures$', 'items')), format('%I', r.rolname)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
WHERE c.relkind = 'r' AND c.relname LIKE '%captures' AND NOT pg_catalog.pg_has_role(c.relowner, 'MEMBER')
  AND EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'trigger_fingerprint')
ORDER BY 1

-- name: preflight_default_privileges
-- Owners whose future tables and sequences this account could not read.
-- Called by: the preflight, on the master.
-- Parameters: schemas text[], owners text[]: schema and quoted owner (pairs). Result, one row for each pair with missing
--   privileges: schema, quoted schema, owner quoted, whether new tables lack SELECT or TRIGGER, whether new sequences
--   lack SELECT.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
WITH wanted AS (
    SELECT DISTINCT w.schema, n.oid AS namespace, w.owner, r.oid AS role
    FROM unnest(%(schemas)s::text[], %(owners)s::text[]) AS w (schema, owner)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_roles r ON format('%%I', r.rolname) = w.owner
), kinds (kind, privilege) AS (
    VALUES ('r'::"char", 'SELECT'), ('r', 'TRIGGER'), ('S', 'SELECT')
), lacking AS (
    SELECT w.schema, w.owner, k.kind
    FROM wanted w CROSS JOIN kinds k
    WHERE NOT pg_catalog.pg_has_role(current_user, w.role, 'USAGE')
      AND NOT EXISTS (
          SELECT FROM pg_catalog.pg_default_acl d CROSS JOIN LATERAL aclexplode(d.defaclacl) a
          WHERE d.defaclrole = w.role AND d.defaclnamespace IN (0, w.namespace) AND d.defaclobjtype = k.kind
            AND a.privilege_type = k.privilege
            AND (a.grantee = 0 OR pg_catalog.pg_has_role(current_user, a.grantee, 'USAGE')))
)
SELECT l.schema, format('%%I', l.schema), l.owner, bool_or(l.kind = 'r'), bool_or(l.kind = 'S')
FROM lacking l
GROUP BY l.schema, l.owner
ORDER BY l.schema, l.owner

-- name: preflight_owned
-- Objects with Sluice's names that do not belong to this account.
-- Called by: the preflight, and before Sluice's objects are created, on master and slave.
-- Parameters: schema text, relations text[], functions text[]: names that Sluice uses there; captures text: the beginning
--   of the names of trigger functions (NULL: there are none). Result, one row an object: the kind as ALTER takes it,
--   quoted name with the schema, owner quoted, whether the owner is a superuser.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH place AS (
    SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname = %(schema)s
), found (kind, name, owner) AS (
    -- Whatever has the name: CREATE TABLE IF NOT EXISTS is content with a view or a foreign table.
    SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
               WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'c' THEN 'TYPE' WHEN 'i' THEN 'INDEX' WHEN 'I' THEN 'INDEX' ELSE 'TABLE' END,
           format('%%I.%%I', n.nspname, c.relname), c.relowner
    FROM place n
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = ANY (%(relations)s::text[])
    UNION ALL
    SELECT 'TYPE', format('%%I.%%I', n.nspname, t.typname), t.typowner
    FROM place n
    JOIN pg_catalog.pg_type t ON t.typnamespace = n.oid AND t.typrelid = 0 AND t.typname = ANY (%(relations)s::text[])
    UNION ALL
    -- Of any parameters: one that fits a call better than Sluice's own would be called in its place.
    SELECT 'ROUTINE',
           format('%%I.%%I(%%s)', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid)), p.proowner
    FROM place n
    JOIN pg_catalog.pg_proc p ON p.pronamespace = n.oid
     AND (p.proname = ANY (%(functions)s::text[]) OR starts_with(p.proname, %(captures)s::text))
)
SELECT f.kind, f.name, format('%%I', r.rolname), r.rolsuper
FROM found f
JOIN pg_catalog.pg_roles r ON r.oid = f.owner
WHERE r.rolname <> current_user
ORDER BY f.kind DESC, f.name

-- name: preflight_schemas
-- What this account may do in schemas.
-- Called by: the preflight, on master and slave. Parameter: schemas text[]. Result, one row a schema: name, quoted name,
--   its owner quoted (NULL: there is no such schema), USAGE, CREATE (bools).
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT w.schema, format('%%I', w.schema), CASE WHEN r.oid IS NOT NULL THEN format('%%I', r.rolname) END,
       coalesce(pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false),
       coalesce(pg_catalog.has_schema_privilege(n.oid, 'CREATE'), false)
FROM (SELECT DISTINCT unnest(%(schemas)s::text[])) AS w (schema)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
LEFT JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
ORDER BY w.schema

-- name: preflight_settings
-- Settings under which statements of the application fail because of the capture, or are not captured.
-- Called by: the preflight, on the master. Result, one row each: name, value with unit, whose it is, and the statement
--   that takes it back; NULL if it came with the server's command line or environment.
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

-- name: preflight_tables
-- What this account may do with tables and their partitions: a trigger of a table is created on each of them, on every
--   level.
-- Called by: the preflight, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs). Result, one row for each existing table or partition:
--   schema and name of the table; whether the relation is a partition of it; schema of the relation, its quoted name with
--   the schema, owner quoted; whether it is partitioned; whether the account has the owner's rights, and whether the
--   owner is a superuser; the privileges it has, of SELECT, INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER, as text[]; whether
--   row level security hides rows from it; whether publications of this database need old values of changed or deleted
--   rows, which it does not provide.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
WITH RECURSIVE
-- pg_partition_tree() and pg_publication_tables would lock tables, and wait for those of others.
published (oid, schema, everything) AS MATERIALIZED (
    SELECT r.prrelid, NULL::oid, false
    FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid
    WHERE p.pubupdate OR p.pubdelete
    UNION ALL
    -- Schemas, from release 15 on.
    SELECT NULL, s.refobjid, false
    FROM pg_catalog.pg_publication p
    JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_publication'::regclass AND d.refobjid = p.oid
        AND d.classid = pg_catalog.to_regclass('pg_catalog.pg_publication_namespace')
    JOIN pg_catalog.pg_depend s ON s.classid = d.classid AND s.objid = d.objid
        AND s.refclassid = 'pg_catalog.pg_namespace'::regclass
    WHERE p.pubupdate OR p.pubdelete
    UNION ALL
    SELECT NULL, NULL, true FROM pg_catalog.pg_publication p WHERE p.puballtables AND (p.pubupdate OR p.pubdelete)
), relations (schema, name, partition, oid) AS (
    SELECT w.schema, w.name, false, c.oid
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
    UNION ALL
    SELECT r.schema, r.name, true, l.oid
    FROM relations r
    JOIN pg_catalog.pg_inherits i ON i.inhparent = r.oid
    JOIN pg_catalog.pg_class l ON l.oid = i.inhrelid AND l.relkind IN ('r', 'p') AND l.relispartition
)
SELECT x.schema, x.name, x.partition, n.nspname::text, format('%%I.%%I', n.nspname, c.relname), format('%%I', r.rolname),
       c.relkind = 'p',
       pg_catalog.pg_has_role(current_user, c.relowner, 'USAGE'), r.rolsuper,
       ARRAY(SELECT p.privilege FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) AS p (privilege)
             WHERE pg_catalog.has_table_privilege(c.oid, p.privilege)),
       pg_catalog.row_security_active(c.oid),
       c.relkind = 'r' AND c.relreplident IN ('d', 'n')
       AND NOT (c.relreplident = 'd' AND EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
       AND pg_catalog.pg_relation_is_publishable(c.oid) AND EXISTS (
           SELECT FROM published b
           WHERE b.everything
              OR EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(c.oid) a JOIN pg_catalog.pg_class o ON o.oid = a.relid
                         WHERE b.oid = o.oid OR b.schema = o.relnamespace)
              OR b.oid = c.oid OR b.schema = c.relnamespace)
FROM relations x
JOIN pg_catalog.pg_class c ON c.oid = x.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
ORDER BY x.schema, x.name, x.partition, 5
