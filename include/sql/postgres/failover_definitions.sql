-- Everything in a database that an application relies on besides rows, columns and types; one row for each definition.
-- Called by: sluice.failover, on master and slave; what the slave lacks is the difference between the two answers.
-- Placeholders: ${prefix} e.g. demo_, whose own objects are left out, those of other prefixes that capture too.
-- Parameters: schemas text[], names text[]: the replicated tables (pairs); all_roles bool: every role instead of those
--   that are referred to.
-- Result: kind; schema and name of the object it belongs to (a table mostly; '' for none); object, its own name; the
--   definition, comparable between servers; text[] of statements that create it, text[] of statements that remove it.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH t AS (
    SELECT w.schema, w.name, c.oid, c.relkind, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity,
           format('%%I.%%I', w.schema, w.name) AS quoted
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
), spaces AS (
    SELECT n.oid, n.nspname, n.nspowner, n.nspacl FROM pg_catalog.pg_namespace n
    WHERE n.nspname IN (SELECT schema FROM t)
), own_functions AS (
    -- Ours, of this prefix or of another that captures.
    SELECT p.oid FROM pg_catalog.pg_proc p
    WHERE (p.prosecdef AND p.proname ~ '^[a-z][a-z0-9_]*capture_[a-z0-9_]*_[0-9a-f]{8}_[iudtgbpx]$')
       OR starts_with(p.proname, '${prefix}')
), functions AS (
    SELECT p.*, n.nspname FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND p.prokind <> 'a'
      AND p.oid NOT IN (SELECT oid FROM own_functions)
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid
                      AND d.deptype = 'e')
), sequences AS (
    SELECT n.nspname, c.relname, c.oid, c.relowner, c.relacl, s.*, format('%%I.%%I', n.nspname, c.relname) AS quoted,
           b.owner, b.identity
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_sequence s ON s.seqrelid = c.oid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN LATERAL (
        SELECT d.refobjid AS owner, d.deptype = 'i' AS identity FROM pg_catalog.pg_depend d
        WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')
          AND d.refclassid = 'pg_catalog.pg_class'::regclass LIMIT 1
    ) b ON true
    WHERE c.relkind = 'S' AND NOT starts_with(c.relname, '${prefix}')
      AND CASE WHEN b.owner IS NULL THEN c.relnamespace IN (SELECT oid FROM spaces) ELSE b.owner IN (SELECT oid FROM t) END
), views AS (
    SELECT n.nspname, c.* FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('v', 'm') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
      AND NOT starts_with(c.relname, '${prefix}')
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
                      AND d.deptype = 'e')
), grants AS (
    SELECT 'TABLE ' || t.quoted AS place, t.schema, t.name, a.grantee, a.privilege_type, a.is_grantable
    FROM t CROSS JOIN LATERAL pg_catalog.aclexplode(t.relacl) a WHERE a.grantee <> t.relowner
    UNION ALL
    SELECT 'SEQUENCE ' || s.quoted, s.nspname, s.relname, a.grantee, a.privilege_type, a.is_grantable
    FROM sequences s CROSS JOIN LATERAL pg_catalog.aclexplode(s.relacl) a WHERE a.grantee <> s.relowner
    UNION ALL
    SELECT format('SCHEMA %%I', n.nspname), n.nspname, '', a.grantee, a.privilege_type, a.is_grantable
    FROM spaces n CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) a WHERE a.grantee <> n.nspowner
), column_grants AS (
    SELECT t.schema, t.name, t.quoted, c.attname, a.grantee, a.privilege_type, a.is_grantable
    FROM t JOIN pg_catalog.pg_attribute c ON c.attrelid = t.oid AND NOT c.attisdropped
    CROSS JOIN LATERAL pg_catalog.aclexplode(c.attacl) a
), policies AS (
    SELECT t.schema, t.name, t.quoted, p.* FROM t JOIN pg_catalog.pg_policy p ON p.polrelid = t.oid
), settings AS (
    SELECT coalesce(r.rolname, '') AS role, split_part(c.setting, '=', 1) AS name,
           substring(c.setting FROM position('=' IN c.setting) + 1) AS value
    FROM pg_catalog.pg_db_role_setting s
    JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase AND d.datname = current_database()
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
    CROSS JOIN LATERAL unnest(s.setconfig) AS c (setting)
    -- Sluice's own account.
    WHERE r.rolname IS DISTINCT FROM current_user
), referred (oid) AS (
    SELECT relowner FROM t UNION SELECT grantee FROM grants UNION SELECT grantee FROM column_grants
    UNION SELECT unnest(polroles) FROM policies
)
SELECT 'role', '', '', r.rolname::text, '', ARRAY[format('CREATE ROLE %%I', r.rolname)], '{}'::text[]
FROM pg_catalog.pg_roles r
WHERE r.rolname !~ '^pg_' AND (%(all_roles)s OR r.oid IN (SELECT oid FROM referred)
                               OR r.rolname IN (SELECT role FROM settings))
UNION ALL
SELECT 'extension', '', '', e.extname, '', ARRAY[format('CREATE EXTENSION %%I', e.extname)], '{}'
FROM pg_catalog.pg_extension e
UNION ALL
SELECT 'partitioning', t.schema, t.name, '',
       concat(pg_catalog.pg_get_partkeydef(t.oid), ': ',
              (SELECT string_agg(format('%%s %%s', i.inhrelid::regclass, pg_catalog.pg_get_expr(p.relpartbound, p.oid)),
                                 ', ' ORDER BY i.inhrelid::regclass::text)
               FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class p ON p.oid = i.inhrelid WHERE i.inhparent = t.oid)),
       '{}'::text[], '{}'
FROM t WHERE t.relkind = 'p'
UNION ALL
SELECT 'sequence', s.nspname, '', s.relname,
       format('AS %%s INCREMENT BY %%s MINVALUE %%s MAXVALUE %%s CACHE %%s %%s', pg_catalog.format_type(s.seqtypid, NULL),
              s.seqincrement, s.seqmin, s.seqmax, s.seqcache, CASE WHEN s.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END),
       ARRAY[format('CREATE SEQUENCE %%s AS %%s INCREMENT BY %%s MINVALUE %%s MAXVALUE %%s START WITH %%s CACHE %%s %%s', s.quoted,
              pg_catalog.format_type(s.seqtypid, NULL), s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache,
              CASE WHEN s.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END)],
       ARRAY['DROP SEQUENCE ' || s.quoted]
FROM sequences s WHERE s.identity IS NOT TRUE
UNION ALL
SELECT 'function', f.nspname, '', format('%%s(%%s)', f.proname, pg_catalog.pg_get_function_identity_arguments(f.oid)),
       md5(pg_catalog.pg_get_functiondef(f.oid)), ARRAY[pg_catalog.pg_get_functiondef(f.oid)], '{}'
FROM functions f
UNION ALL
SELECT 'default', t.schema, t.name, a.attname, pg_catalog.pg_get_expr(d.adbin, d.adrelid),
       ARRAY[format('ALTER TABLE %%s ALTER COLUMN %%I SET DEFAULT %%s', t.quoted, a.attname,
                    pg_catalog.pg_get_expr(d.adbin, d.adrelid))],
       ARRAY[format('ALTER TABLE %%s ALTER COLUMN %%I DROP DEFAULT', t.quoted, a.attname)]
FROM t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
JOIN pg_catalog.pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
UNION ALL
SELECT 'identity', t.schema, t.name, a.attname, CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END,
       ARRAY[format('ALTER TABLE %%s ALTER COLUMN %%I SET GENERATED %%s', t.quoted, a.attname,
                    CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END)], '{}'
FROM t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity <> ''
UNION ALL
SELECT 'index', t.schema, t.name, x.relname, i.indisunique::text || ' ' || d.rest,
       ARRAY[format('CREATE %%sINDEX %%I ON %%s %%s', CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, x.relname, t.quoted, d.rest)],
       ARRAY[format('DROP INDEX %%I.%%I', t.schema, x.relname)]
FROM t JOIN pg_catalog.pg_index i ON i.indrelid = t.oid AND i.indislive AND i.indisvalid
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
CROSS JOIN LATERAL (
    SELECT substring(pg_catalog.pg_get_indexdef(i.indexrelid)
                     FROM char_length(format('CREATE %%sINDEX %%I ON %%s%%s ', CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, x.relname,
                                             CASE WHEN x.relkind = 'I' THEN 'ONLY ' ELSE '' END, t.quoted)) + 1) AS rest) d
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
UNION ALL
SELECT CASE k.contype WHEN 'p' THEN 'primary key' WHEN 'u' THEN 'unique constraint' WHEN 'x' THEN 'exclusion constraint'
                      WHEN 'c' THEN 'check' ELSE 'foreign key' END,
       t.schema, t.name, k.conname, d.definition,
       ARRAY[format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s%%s', t.quoted, k.conname, d.definition,
                    -- Rows are checked later, while the application writes.
                    CASE WHEN k.contype IN ('c', 'f') AND d.definition !~ ' NOT ENFORCED$' THEN ' NOT VALID' ELSE '' END)],
       ARRAY[format('ALTER TABLE %%s DROP CONSTRAINT %%I', t.quoted, k.conname)]
FROM t JOIN pg_catalog.pg_constraint k ON k.conrelid = t.oid AND k.conparentid = 0 AND k.contype IN ('p', 'u', 'x', 'c', 'f')
CROSS JOIN LATERAL (SELECT regexp_replace(pg_catalog.pg_get_constraintdef(k.oid), ' NOT VALID$', '') AS definition) d
UNION ALL
SELECT 'trigger', t.schema, t.name, g.tgname, pg_catalog.pg_get_triggerdef(g.oid) || ' ' || g.tgenabled::text,
       array_remove(ARRAY[pg_catalog.pg_get_triggerdef(g.oid),
           CASE g.tgenabled WHEN 'D' THEN format('ALTER TABLE %%s DISABLE TRIGGER %%I', t.quoted, g.tgname)
                            WHEN 'R' THEN format('ALTER TABLE %%s ENABLE REPLICA TRIGGER %%I', t.quoted, g.tgname)
                            WHEN 'A' THEN format('ALTER TABLE %%s ENABLE ALWAYS TRIGGER %%I', t.quoted, g.tgname) END], NULL),
       ARRAY[format('DROP TRIGGER %%I ON %%s', g.tgname, t.quoted)]
FROM t JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal AND g.tgparentid = 0
WHERE g.tgfoid NOT IN (SELECT oid FROM own_functions)
UNION ALL
SELECT 'rule', t.schema, t.name, r.rulename, pg_catalog.pg_get_ruledef(r.oid), ARRAY[pg_catalog.pg_get_ruledef(r.oid)], '{}'
FROM t JOIN pg_catalog.pg_rewrite r ON r.ev_class = t.oid
UNION ALL
SELECT 'view', v.nspname, '', v.relname, pg_catalog.pg_get_viewdef(v.oid),
       ARRAY[format('CREATE %%sVIEW %%I.%%I AS %%s', CASE v.relkind WHEN 'm' THEN 'MATERIALIZED ' ELSE '' END, v.nspname, v.relname,
                    pg_catalog.pg_get_viewdef(v.oid))], '{}'
FROM views v
UNION ALL
SELECT 'policy', p.schema, p.name, p.polname, d.rest, ARRAY[format('CREATE POLICY %%I ON %%s %%s', p.polname, p.quoted, d.rest)],
       ARRAY[format('DROP POLICY %%I ON %%s', p.polname, p.quoted)]
FROM policies p
CROSS JOIN LATERAL (
    SELECT concat('AS ', CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
                  ' FOR ', CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
                                         WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
                  ' TO ', (SELECT string_agg(coalesce(quote_ident(r.rolname), 'PUBLIC'), ', ' ORDER BY r.rolname)
                           FROM unnest(p.polroles) AS o (oid) LEFT JOIN pg_catalog.pg_roles r ON r.oid = o.oid),
                  ' USING (' || pg_catalog.pg_get_expr(p.polqual, p.polrelid) || ')',
                  ' WITH CHECK (' || pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) || ')') AS rest) d
UNION ALL
-- After the policies: without a policy, only the owner sees rows.
SELECT 'row level security', t.schema, t.name, '', CASE WHEN t.relforcerowsecurity THEN 'forced' ELSE 'enabled' END,
       array_remove(ARRAY[format('ALTER TABLE %%s ENABLE ROW LEVEL SECURITY', t.quoted),
           CASE WHEN t.relforcerowsecurity THEN format('ALTER TABLE %%s FORCE ROW LEVEL SECURITY', t.quoted) END], NULL),
       ARRAY[format('ALTER TABLE %%s DISABLE ROW LEVEL SECURITY', t.quoted),
             format('ALTER TABLE %%s NO FORCE ROW LEVEL SECURITY', t.quoted)]
FROM t WHERE t.relrowsecurity
UNION ALL
SELECT 'owner', t.schema, t.name, '', r.rolname, ARRAY[format('ALTER TABLE %%s OWNER TO %%I', t.quoted, r.rolname)], '{}'
FROM t JOIN pg_catalog.pg_roles r ON r.oid = t.relowner
UNION ALL
SELECT 'owner', s.nspname, s.relname, '', r.rolname, ARRAY[format('ALTER SEQUENCE %%s OWNER TO %%I', s.quoted, r.rolname)], '{}'
FROM sequences s JOIN pg_catalog.pg_roles r ON r.oid = s.relowner WHERE s.owner IS NULL
UNION ALL
-- For a schema that an administrator created, nothing depends on the owner.
SELECT 'schema owner', n.nspname, '', '', r.rolname, ARRAY[format('ALTER SCHEMA %%I OWNER TO %%I', n.nspname, r.rolname)], '{}'
FROM spaces n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner AND NOT r.rolsuper AND r.rolname !~ '^pg_'
UNION ALL
SELECT 'privilege', g.schema, g.name, format('%%s to %%s%%s', split_part(g.place, ' ', 1), d.grantee, d.option),
       string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type),
       ARRAY[format('GRANT %%s ON %%s TO %%s%%s', string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type), g.place, d.grantee, d.option)],
       ARRAY[format('REVOKE %%s ON %%s FROM %%s', string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type), g.place, d.grantee)]
FROM grants g LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
CROSS JOIN LATERAL (SELECT coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee,
                           CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option) d
WHERE r.rolname IS DISTINCT FROM current_user
GROUP BY g.schema, g.name, g.place, d.grantee, d.option
UNION ALL
SELECT 'privilege', g.schema, g.name, format('column %%I to %%s%%s', g.attname, d.grantee, d.option),
       string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type),
       array_agg(format('GRANT %%s (%%I) ON %%s TO %%s%%s', g.privilege_type, g.attname, g.quoted, d.grantee, d.option) ORDER BY g.privilege_type),
       array_agg(format('REVOKE %%s (%%I) ON %%s FROM %%s', g.privilege_type, g.attname, g.quoted, d.grantee) ORDER BY g.privilege_type)
FROM column_grants g LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
CROSS JOIN LATERAL (SELECT coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee,
                           CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option) d
GROUP BY g.schema, g.name, g.quoted, g.attname, d.grantee, d.option
UNION ALL
SELECT 'setting', '', '', concat_ws(' of role ', s.name, nullif(quote_ident(s.role), '')), s.value,
       ARRAY[format('DO %%L', format('BEGIN EXECUTE format(%%L, current_database()); END',
             CASE WHEN s.role = '' THEN 'ALTER DATABASE %%I SET ' ELSE replace(format('ALTER ROLE %%I', s.role), '%%', '%%%%') || ' IN DATABASE %%I SET ' END
             || replace(quote_ident(s.name) || ' TO ' ||
                -- These hold lists, kept as they are to be written.
                CASE WHEN s.name IN ('search_path', 'temp_tablespaces', 'session_preload_libraries', 'local_preload_libraries')
                     THEN s.value ELSE quote_literal(s.value) END, '%%', '%%%%')))],
       ARRAY[format('DO %%L', format('BEGIN EXECUTE format(%%L, current_database()); END',
             CASE WHEN s.role = '' THEN 'ALTER DATABASE %%I RESET ' ELSE replace(format('ALTER ROLE %%I', s.role), '%%', '%%%%') || ' IN DATABASE %%I RESET ' END
             || quote_ident(s.name)))]
FROM settings s
