-- The record of a failover. Each statement is a section with its name.

-- name: failover_begin
-- Begins a failover: clears what an earlier one left in the row, except the master's definitions.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, id, action, reverse, by.
-- Privileges: INSERT, UPDATE.
-- Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}failover AS f (slave, failover_id, action, phase, reverse, started_by, begun_at)
VALUES (%(slave)s, %(id)s, %(action)s, 'begun', %(reverse)s, %(by)s, clock_timestamp())
ON CONFLICT (slave) DO UPDATE SET failover_id = excluded.failover_id, action = excluded.action, phase = excluded.phase,
    reverse = excluded.reverse, started_by = excluded.started_by, begun_at = excluded.begun_at, last = NULL, start = NULL,
    verified = NULL, compared = NULL, made = '[]', guarded_at = NULL, updated_at = clock_timestamp()

-- name: failover_changed
-- Which rows changed in a window of ITEMS, by their keys.
-- Called by: sluice.failover, to compare what changed since the slave was compared.
-- Placeholders: ${prefix}, ${schema} of the DbResources; ${window} as queue_window says; ${most}: how many changes are
--   read, a number.
-- Result: how many changes were read; schema, table, GUID, action, each once; for an UPDATE that changed the key its
--   CONTENT and OLDCONTENT, else NULL.
-- Privileges: SELECT on ITEMS.
-- Oldest version: PostgreSQL 14.
WITH changes AS MATERIALIZED (
    SELECT db_schema, tablename, guid, db_action, guid IS NULL AND db_action = 'UPDATE' AS moved, content, oldcontent
    FROM ${schema}.${prefix}items WHERE ${window} LIMIT ${most}
)
SELECT DISTINCT (SELECT count(*) FROM changes), db_schema, tablename, guid, db_action,
       CASE WHEN moved THEN content END, CASE WHEN moved THEN oldcontent END
FROM changes

-- name: failover_claim
-- Claims the master for a failover: no other one can begin.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources. Parameter: claim (JSON: id, slave, phase).
-- Result: none.
-- Privileges: INSERT on INFO.
-- Oldest version: PostgreSQL 14.
INSERT INTO ${schema}.${prefix}info (name, value) VALUES ('failover', %(claim)s) ON CONFLICT (name) DO NOTHING

-- name: failover_claim_move
-- Moves the claim of a failover to another phase, or deletes it. The first move wins, so that a switch and an abort
--   exclude each other.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources.
-- Parameters: id, phases text[]: the phases in which it may be moved; phase (NULL: the claim is deleted).
-- Result: one row if it was in such a phase.
-- Privileges: UPDATE, DELETE on INFO.
-- Oldest version: PostgreSQL 14.
WITH found AS (
    SELECT name FROM ${schema}.${prefix}info
    WHERE name = 'failover' AND value::jsonb ->> 'id' = %(id)s AND value::jsonb ->> 'phase' = ANY (%(phases)s) FOR UPDATE
), moved AS (
    UPDATE ${schema}.${prefix}info i SET value = jsonb_set(i.value::jsonb, '{phase}', to_jsonb(%(phase)s::text))::text
    FROM found f WHERE i.name = f.name AND %(phase)s::text IS NOT NULL RETURNING 1
), gone AS (
    DELETE FROM ${schema}.${prefix}info i USING found f WHERE i.name = f.name AND %(phase)s::text IS NULL RETURNING 1
)
SELECT * FROM moved UNION ALL SELECT * FROM gone

-- name: failover_claimed
-- Which failover has claimed the master.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema} of the DbResources.
-- Result: JSON: id, slave, phase.
-- Privileges: SELECT on INFO.
-- Oldest version: PostgreSQL 14.
SELECT value FROM ${schema}.${prefix}info WHERE name = 'failover'

-- name: failover_definitions
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
), types AS (
    -- Types that somebody made: those of tables and arrays have no owner of their own.
    SELECT n.nspname, y.*, CASE y.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END AS word
    FROM pg_catalog.pg_type y JOIN pg_catalog.pg_namespace n ON n.oid = y.typnamespace
    LEFT JOIN pg_catalog.pg_class c ON c.oid = y.typrelid
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND NOT starts_with(y.typname, '${prefix}')
      AND (y.typtype IN ('d', 'e', 'r') OR (y.typtype = 'c' AND c.relkind = 'c'))
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_type'::regclass AND d.objid = y.oid
                      AND d.deptype = 'e')
), objects AS (
    -- What has an owner and privileges; place: as GRANT names it, word: as ALTER and COMMENT do.
    SELECT t.schema, t.name, '' AS thing, 'TABLE ' || t.quoted AS place, 'TABLE ' || t.quoted AS word, t.relowner AS owner,
           coalesce(t.relacl, acldefault('r', t.relowner)) AS acl, acldefault('r', t.relowner) AS usual,
           'pg_catalog.pg_class'::regclass AS catalog, t.oid
    FROM t
    UNION ALL
    SELECT n.nspname, c.relname, 'partition', format('TABLE %%I.%%I', n.nspname, c.relname), format('TABLE %%I.%%I', n.nspname, c.relname),
           c.relowner, coalesce(c.relacl, acldefault('r', c.relowner)), acldefault('r', c.relowner), 'pg_catalog.pg_class'::regclass, c.oid
    FROM t CROSS JOIN LATERAL pg_catalog.pg_partition_tree(t.oid) e JOIN pg_catalog.pg_class c ON c.oid = e.relid AND c.oid <> t.oid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    UNION ALL
    SELECT s.nspname, s.relname, '', 'SEQUENCE ' || s.quoted, 'SEQUENCE ' || s.quoted, s.relowner,
           coalesce(s.relacl, acldefault('s', s.relowner)), acldefault('s', s.relowner), 'pg_catalog.pg_class'::regclass, s.oid
    FROM sequences s
    UNION ALL
    SELECT n.nspname, '', '', format('SCHEMA %%I', n.nspname), format('SCHEMA %%I', n.nspname), n.nspowner,
           coalesce(n.nspacl, acldefault('n', n.nspowner)), acldefault('n', n.nspowner), 'pg_catalog.pg_namespace'::regclass, n.oid
    FROM spaces n
    UNION ALL
    SELECT v.nspname, v.relname, 'view', format('TABLE %%I.%%I', v.nspname, v.relname),
           format('%%sVIEW %%I.%%I', CASE v.relkind WHEN 'm' THEN 'MATERIALIZED ' ELSE '' END, v.nspname, v.relname), v.relowner,
           coalesce(v.relacl, acldefault('r', v.relowner)), acldefault('r', v.relowner), 'pg_catalog.pg_class'::regclass, v.oid
    FROM views v
    UNION ALL
    SELECT f.nspname, d.name, 'function', 'ROUTINE ' || d.quoted, 'ROUTINE ' || d.quoted, f.proowner,
           coalesce(f.proacl, acldefault('f', f.proowner)), acldefault('f', f.proowner), 'pg_catalog.pg_proc'::regclass, f.oid
    FROM functions f
    CROSS JOIN LATERAL (SELECT format('%%s(%%s)', f.proname, a.arguments) AS name,
                               format('%%I.%%I(%%s)', f.nspname, f.proname, a.arguments) AS quoted
                        FROM (SELECT pg_catalog.pg_get_function_identity_arguments(f.oid) AS arguments) a) d
    UNION ALL
    SELECT y.nspname, y.typname, 'type', format('%%s %%I.%%I', y.word, y.nspname, y.typname),
           format('%%s %%I.%%I', y.word, y.nspname, y.typname), y.typowner,
           coalesce(y.typacl, acldefault('T', y.typowner)), acldefault('T', y.typowner), 'pg_catalog.pg_type'::regclass, y.oid
    FROM types y
), grants AS (
    SELECT o.place, o.schema, o.name, o.thing, a.grantee, a.privilege_type, a.is_grantable
    FROM objects o CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) a WHERE a.grantee <> o.owner
), withheld AS (
    -- What everybody has of a new object, and was taken away: EXECUTE on functions, USAGE on types.
    SELECT o.place, o.schema, o.name, o.thing, a.privilege_type
    FROM objects o CROSS JOIN LATERAL pg_catalog.aclexplode(o.usual) a
    WHERE a.grantee = 0 AND NOT EXISTS (SELECT FROM pg_catalog.aclexplode(o.acl) h
                                        WHERE h.grantee = 0 AND h.privilege_type = a.privilege_type)
), defaults AS (
    -- Without a schema, a default privilege replaces what is built in; with one, it is added.
    SELECT coalesce(n.nspname, '') AS schema, w.rolname AS role, k.word, d.defaclrole,
           format('ALTER DEFAULT PRIVILEGES FOR ROLE %%I%%s', w.rolname, ' IN SCHEMA ' || quote_ident(n.nspname)) AS head,
           d.defaclacl AS acl, CASE WHEN n.oid IS NULL THEN acldefault(k.type, d.defaclrole) END AS usual
    FROM pg_catalog.pg_default_acl d
    JOIN pg_catalog.pg_roles w ON w.oid = d.defaclrole
    JOIN (VALUES ('r'::"char", 'r'::"char", 'TABLES'), ('S', 's', 'SEQUENCES'), ('f', 'f', 'FUNCTIONS'), ('T', 'T', 'TYPES'),
                 ('n', 'n', 'SCHEMAS')) AS k (own, type, word) ON k.own = d.defaclobjtype
    LEFT JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace
    WHERE (d.defaclnamespace = 0 OR n.oid IN (SELECT oid FROM spaces)) AND w.rolname <> current_user
), default_grants AS (
    SELECT d.*, a.grantee, a.privilege_type, a.is_grantable, true AS given
    FROM defaults d CROSS JOIN LATERAL pg_catalog.aclexplode(d.acl) a
    WHERE NOT EXISTS (SELECT FROM pg_catalog.aclexplode(d.usual) u WHERE u.grantee = a.grantee
                      AND u.privilege_type = a.privilege_type AND u.is_grantable = a.is_grantable)
    UNION ALL
    SELECT d.*, u.grantee, u.privilege_type, u.is_grantable, false
    FROM defaults d CROSS JOIN LATERAL pg_catalog.aclexplode(d.usual) u
    WHERE NOT EXISTS (SELECT FROM pg_catalog.aclexplode(d.acl) a WHERE u.grantee = a.grantee
                      AND u.privilege_type = a.privilege_type AND u.is_grantable = a.is_grantable)
), parts AS (
    -- Partitions that do not belong to whom their root belongs.
    SELECT t.oid, string_agg(format('%%s of %%s', p.name, p.owner), ', ' ORDER BY p.name) AS strange,
           string_agg(format('WHEN %%L THEN %%L', p.name, p.owner), ' ' ORDER BY p.name) AS cases
    FROM t CROSS JOIN LATERAL (
        SELECT format('%%I.%%I', n.nspname, c.relname) AS name, r.rolname AS owner
        FROM pg_catalog.pg_partition_tree(t.oid) e JOIN pg_catalog.pg_class c ON c.oid = e.relid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
        WHERE c.relowner <> t.relowner) p
    WHERE t.relkind = 'p' GROUP BY t.oid
), comments AS (
    SELECT o.schema, o.name, o.thing, o.word, d.description
    FROM objects o JOIN pg_catalog.pg_description d ON d.classoid = o.catalog AND d.objoid = o.oid AND d.objsubid = 0
    WHERE o.place <> 'SCHEMA public'
    UNION ALL
    SELECT t.schema, t.name, format('column %%I', a.attname), format('COLUMN %%s.%%I', t.quoted, a.attname), d.description
    FROM t JOIN pg_catalog.pg_description d ON d.classoid = 'pg_catalog.pg_class'::regclass AND d.objoid = t.oid AND d.objsubid > 0
    JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.objsubid AND NOT a.attisdropped
    UNION ALL
    SELECT t.schema, t.name, format('index %%I', x.relname), format('INDEX %%I.%%I', t.schema, x.relname), d.description
    FROM t JOIN pg_catalog.pg_index i ON i.indrelid = t.oid JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    JOIN pg_catalog.pg_description d ON d.classoid = 'pg_catalog.pg_class'::regclass AND d.objoid = x.oid
    UNION ALL
    SELECT t.schema, t.name, format('constraint %%I', k.conname), format('CONSTRAINT %%I ON %%s', k.conname, t.quoted), d.description
    FROM t JOIN pg_catalog.pg_constraint k ON k.conrelid = t.oid
    JOIN pg_catalog.pg_description d ON d.classoid = 'pg_catalog.pg_constraint'::regclass AND d.objoid = k.oid
    UNION ALL
    SELECT t.schema, t.name, format('trigger %%I', g.tgname), format('TRIGGER %%I ON %%s', g.tgname, t.quoted), d.description
    FROM t JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal
    JOIN pg_catalog.pg_description d ON d.classoid = 'pg_catalog.pg_trigger'::regclass AND d.objoid = g.oid
    WHERE g.tgfoid NOT IN (SELECT oid FROM own_functions)
    UNION ALL
    SELECT t.schema, t.name, format('policy %%I', p.polname), format('POLICY %%I ON %%s', p.polname, t.quoted), d.description
    FROM t JOIN pg_catalog.pg_policy p ON p.polrelid = t.oid
    JOIN pg_catalog.pg_description d ON d.classoid = 'pg_catalog.pg_policy'::regclass AND d.objoid = p.oid
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
    UNION SELECT unnest(polroles) FROM policies UNION SELECT owner FROM objects WHERE thing = '' AND name <> ''
    UNION SELECT defaclrole FROM defaults UNION SELECT grantee FROM default_grants
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
       md5(pg_catalog.pg_get_functiondef(f.oid)),
       ARRAY[pg_catalog.pg_get_functiondef(f.oid), format('ALTER %%s OWNER TO %%I', o.word, r.rolname)], '{}'
FROM functions f JOIN objects o ON o.catalog = 'pg_catalog.pg_proc'::regclass AND o.oid = f.oid
JOIN pg_catalog.pg_roles r ON r.oid = f.proowner
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
                    pg_catalog.pg_get_viewdef(v.oid)),
             format('ALTER %%s OWNER TO %%I', o.word, r.rolname)], '{}'
FROM views v JOIN objects o ON o.catalog = 'pg_catalog.pg_class'::regclass AND o.oid = v.oid
JOIN pg_catalog.pg_roles r ON r.oid = v.relowner
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
SELECT 'comment', c.schema, c.name, c.thing, c.description, ARRAY[format('COMMENT ON %%s IS %%L', c.word, c.description)],
       ARRAY[format('COMMENT ON %%s IS NULL', c.word)]
FROM comments c
UNION ALL
SELECT 'owner', o.schema, o.name, o.thing, concat_ws(E'\n', r.rolname, p.strange),
       ARRAY[CASE WHEN t.relkind = 'p' THEN
                 -- The slave has partitions of its own, a DEFAULT one perhaps.
                 format('DO %%L', format('DECLARE part text; BEGIN FOR part IN SELECT %%1$L::regclass UNION '
                     'SELECT relid::regclass FROM pg_partition_tree(%%1$L) LOOP EXECUTE format(''ALTER TABLE %%%%s OWNER TO %%%%I'', part, %%2$s); END LOOP; END', t.quoted,
                     CASE WHEN p.cases IS NULL THEN quote_literal(r.rolname)
                          ELSE format('(SELECT CASE format(''%%%%I.%%%%I'', n.nspname, c.relname) %%s ELSE %%L END FROM pg_class c '
                                      'JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = part::regclass)', p.cases, r.rolname)
                     END))
             ELSE format('ALTER %%s OWNER TO %%I', o.word, r.rolname) END], '{}'
FROM objects o JOIN pg_catalog.pg_roles r ON r.oid = o.owner
LEFT JOIN t ON o.catalog = 'pg_catalog.pg_class'::regclass AND t.oid = o.oid
LEFT JOIN parts p ON p.oid = t.oid
WHERE o.catalog <> 'pg_catalog.pg_namespace'::regclass
  AND NOT EXISTS (SELECT FROM sequences s WHERE s.oid = o.oid AND s.owner IS NOT NULL)
UNION ALL
-- For a schema that an administrator created, nothing depends on the owner.
SELECT 'schema owner', n.nspname, '', '', r.rolname, ARRAY[format('ALTER SCHEMA %%I OWNER TO %%I', n.nspname, r.rolname)], '{}'
FROM spaces n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner AND NOT r.rolsuper AND r.rolname !~ '^pg_'
UNION ALL
SELECT 'privilege', g.schema, g.name, format('%%s to %%s%%s', coalesce(nullif(g.thing, ''), split_part(g.place, ' ', 1)), d.grantee, d.option),
       string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type),
       ARRAY[format('GRANT %%s ON %%s TO %%s%%s', string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type), g.place, d.grantee, d.option)],
       ARRAY[format('REVOKE %%s ON %%s FROM %%s', string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type), g.place, d.grantee)]
FROM grants g LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
CROSS JOIN LATERAL (SELECT coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee,
                           CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option) d
WHERE r.rolname IS DISTINCT FROM current_user
GROUP BY g.schema, g.name, g.thing, g.place, d.grantee, d.option
UNION ALL
SELECT 'privilege', g.schema, g.name, format('column %%I to %%s%%s', g.attname, d.grantee, d.option),
       string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type),
       array_agg(format('GRANT %%s (%%I) ON %%s TO %%s%%s', g.privilege_type, g.attname, g.quoted, d.grantee, d.option) ORDER BY g.privilege_type),
       array_agg(format('REVOKE %%s (%%I) ON %%s FROM %%s', g.privilege_type, g.attname, g.quoted, d.grantee) ORDER BY g.privilege_type)
FROM column_grants g LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
CROSS JOIN LATERAL (SELECT coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee,
                           CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option) d
WHERE r.rolname IS DISTINCT FROM current_user
GROUP BY g.schema, g.name, g.quoted, g.attname, d.grantee, d.option
UNION ALL
SELECT 'privilege', w.schema, w.name, concat_ws(' ', nullif(w.thing, ''), 'not to PUBLIC'), string_agg(w.privilege_type, ', ' ORDER BY w.privilege_type),
       ARRAY[format('REVOKE %%s ON %%s FROM PUBLIC', string_agg(w.privilege_type, ', ' ORDER BY w.privilege_type), w.place)],
       ARRAY[format('GRANT %%s ON %%s TO PUBLIC', string_agg(w.privilege_type, ', ' ORDER BY w.privilege_type), w.place)]
FROM withheld w GROUP BY w.schema, w.name, w.thing, w.place
UNION ALL
SELECT 'default privilege', g.schema, g.role, format('%%s %%s %%s%%s', g.word, CASE WHEN g.given THEN 'to' ELSE 'not to' END, d.grantee, d.option),
       string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type),
       ARRAY[CASE WHEN g.given THEN format('%%s GRANT %%s ON %%s TO %%s%%s', g.head, string_agg(g.privilege_type, ', '), g.word, d.grantee, d.option)
                  ELSE format('%%s REVOKE %%s ON %%s FROM %%s', g.head, string_agg(g.privilege_type, ', '), g.word, d.grantee) END],
       ARRAY[CASE WHEN g.given THEN format('%%s REVOKE %%s ON %%s FROM %%s', g.head, string_agg(g.privilege_type, ', '), g.word, d.grantee)
                  ELSE format('%%s GRANT %%s ON %%s TO %%s%%s', g.head, string_agg(g.privilege_type, ', '), g.word, d.grantee, d.option) END]
FROM default_grants g LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
CROSS JOIN LATERAL (SELECT coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee,
                           CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option) d
WHERE r.rolname IS DISTINCT FROM current_user
GROUP BY g.schema, g.role, g.word, g.given, g.head, d.grantee, d.option
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

-- name: failover_keep
-- Stores the master's definitions on the slave, for a failover without the master, and who was the master when.
-- Called by: sluice.failover and housekeeping.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave; sheet (JSON), time (NULL: unchanged); switches: changes of the master (a JSON array).
-- Privileges: INSERT, UPDATE.
-- Oldest version: PostgreSQL 13.
INSERT INTO ${schema}.${prefix}failover AS f (slave, sheet, sheet_at, switches)
VALUES (%(slave)s, %(sheet)s, %(time)s::timestamptz, %(switches)s)
ON CONFLICT (slave) DO UPDATE SET sheet = coalesce(excluded.sheet, f.sheet), sheet_at = coalesce(excluded.sheet_at, f.sheet_at),
    switches = coalesce((SELECT pg_catalog.jsonb_agg(DISTINCT one.value)
                         FROM pg_catalog.jsonb_array_elements(f.switches || excluded.switches) AS one), '[]')

-- name: failover_made
-- Records what was created on the slave in this transaction, or removes the last record (undo).
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, made (a JSON object; NULL: the last record is removed).
-- Privileges: UPDATE.
-- Oldest version: PostgreSQL 13.
UPDATE ${schema}.${prefix}failover
SET made = CASE WHEN %(made)s::jsonb IS NULL THEN made - (-1) ELSE made || jsonb_build_array(%(made)s::jsonb) END,
    updated_at = clock_timestamp()
WHERE slave = %(slave)s

-- name: failover_move
-- Moves a failover to another phase. The caller holds the row's lock.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema}.
-- Parameters: slave, phase; last, start, verified, compared (NULL: unchanged); switch: a change of the master (a JSON
--   array; NULL: none).
-- Privileges: UPDATE.
-- Oldest version: PostgreSQL 13.
UPDATE ${schema}.${prefix}failover
SET phase = %(phase)s, last = coalesce(%(last)s, last), start = coalesce(%(start)s, start),
    verified = coalesce(%(verified)s, verified), compared = coalesce(%(compared)s, compared),
    switches = switches || coalesce(%(switch)s::jsonb, '[]'),
    guarded_at = CASE WHEN %(phase)s = 'guarded' THEN clock_timestamp() ELSE guarded_at END, updated_at = clock_timestamp()
WHERE slave = %(slave)s

-- name: failover_read
-- Reads the last or the running failover of a slave.
-- Called by: sluice.failover.
-- Placeholders: ${prefix}, ${schema}, ${lock} empty or FOR UPDATE. Parameter: slave.
-- Result: id, action, phase, reverse, by, begun_at (text), last, start, verified, made, guarded_at (ISO 8601, UTC),
--   compared; id NULL: there was none.
-- Privileges: SELECT, UPDATE for the lock.
-- Oldest version: PostgreSQL 13.
SELECT failover_id, action, phase, reverse, started_by, begun_at::text, coalesce(last, ''), coalesce(start, ''),
       coalesce(verified, ''), made,
       -- A table of an earlier release lacks it until a failover begins.
       coalesce(to_char((to_jsonb(f) ->> 'guarded_at')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ''),
       coalesce(to_jsonb(f) ->> 'compared', '')
FROM ${schema}.${prefix}failover f WHERE slave = %(slave)s ${lock}

-- name: failover_rights
-- What a failover cannot create, because the account has no other rights than the ownership of the tables.
-- Called by: sluice.failover, on the slave.
-- Parameters: granted text[]: schemas whose privileges are granted to others; owners text[], spaces text[] (pairs): roles
--   that objects in these schemas are given to, '' for no schema; given text[], givers text[] (pairs): schemas and the
--   roles that they are given to; database bool, roles bool: settings of the database, or of roles in it, are to be
--   created.
-- Result: kind (grant, superuser, member, create, schema, schemas, database, roles); schema or role, quoted where it
--   needs it; schema.
-- Privileges: none.
-- Oldest version: PostgreSQL 14.
WITH me AS (
    SELECT oid, rolsuper, rolcreaterole FROM pg_catalog.pg_roles WHERE rolname = current_user
), given AS (
    SELECT n.oid, n.nspname, n.nspowner, r.oid AS role, r.rolname, r.rolsuper
    FROM unnest(%(given)s::text[], %(givers)s::text[]) AS w (space, role)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.space
    JOIN pg_catalog.pg_roles r ON r.rolname = w.role
), owners AS (
    SELECT DISTINCT r.oid, r.rolname, r.rolsuper, n.oid AS space, n.nspname
    FROM unnest(%(owners)s::text[], %(spaces)s::text[]) AS w (role, space)
    JOIN pg_catalog.pg_roles r ON r.rolname = w.role
    LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.space
    UNION
    SELECT role, rolname, rolsuper, NULL, NULL FROM given
)
SELECT 'grant', quote_ident(n.nspname), n.nspname::text FROM pg_catalog.pg_namespace n
WHERE n.nspname = ANY (%(granted)s::text[])
  AND NOT (has_schema_privilege(n.oid, 'USAGE WITH GRANT OPTION') AND has_schema_privilege(n.oid, 'CREATE WITH GRANT OPTION'))
UNION
-- Nobody is made a member of a superuser for that.
SELECT 'superuser', quote_ident(o.rolname), o.rolname::text FROM owners o, me WHERE o.rolsuper AND NOT me.rolsuper
UNION
SELECT 'member', quote_ident(o.rolname), '' FROM owners o
WHERE NOT o.rolsuper
  AND NOT pg_has_role(o.oid, CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
UNION
SELECT 'create', quote_ident(o.rolname), o.nspname::text FROM owners o, me
WHERE NOT me.rolsuper AND NOT o.rolsuper AND NOT has_schema_privilege(o.oid, o.space, 'CREATE')
  -- Who is given the schema may create in it.
  AND NOT EXISTS (SELECT FROM given g WHERE g.oid = o.space AND g.role = o.oid)
UNION
SELECT 'schema', quote_ident(g.nspname), g.nspname::text FROM given g, me
WHERE NOT me.rolsuper AND NOT g.rolsuper AND NOT pg_has_role(g.nspowner, 'USAGE')
UNION
SELECT 'schemas', '', '' FROM me
WHERE NOT me.rolsuper AND EXISTS (SELECT FROM given g WHERE NOT g.rolsuper AND pg_has_role(g.nspowner, 'USAGE'))
  AND NOT has_database_privilege(current_database(), 'CREATE')
UNION
SELECT 'database', '', '' FROM pg_catalog.pg_database d
WHERE %(database)s AND d.datname = current_database() AND NOT pg_has_role(d.datdba, 'USAGE')
UNION
SELECT 'roles', '', '' FROM me WHERE %(roles)s AND NOT (rolsuper OR rolcreaterole)
ORDER BY 1, 2, 3

-- name: failover_sequences
-- Sequences that no column of a replicated table uses; applications call them.
-- Called by: sluice.failover and the apply, on the master and on the slave; the preflight, on the master.
-- Placeholders: ${prefix} e.g. demo_, whose own are left out. Parameters: schemas text[]: those of the replicated tables,
--   in which sequences are looked for; values bool: whether values are read, which waits for locks.
-- Result: schema, name, increment, minimum, maximum, the last value (NULL: none drawn yet, or not read), type, start,
--   cache, cycle, whether this account may read that value, owner of the sequence, quoted.
-- Privileges: SELECT or USAGE on the sequences.
-- Oldest version: PostgreSQL 14.
SELECT n.nspname::text, c.relname::text, s.seqincrement, s.seqmin, s.seqmax,
       CASE WHEN %(values)s AND has_sequence_privilege(c.oid, 'SELECT, USAGE') THEN pg_catalog.pg_sequence_last_value(c.oid) END,
       pg_catalog.format_type(s.seqtypid, NULL), s.seqstart, s.seqcache, s.seqcycle,
       has_sequence_privilege(c.oid, 'SELECT, USAGE'), format('%%I', pg_catalog.pg_get_userbyid(c.relowner))
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_sequence s ON s.seqrelid = c.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'S' AND NOT starts_with(c.relname, '${prefix}') AND n.nspname = ANY (%(schemas)s::text[])
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                  WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')
                    AND d.refclassid = 'pg_catalog.pg_class'::regclass)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                  WHERE d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
                    AND d.refobjid = c.oid)
ORDER BY 1, 2

-- name: failover_switches
-- Reads what a database knows of changes of the master, from the rows of all its slaves.
-- Called by: sluice.failover and the monitor.
-- Placeholders: ${prefix}, ${schema}.
-- Result: a JSON array a row.
-- Privileges: SELECT.
-- Oldest version: PostgreSQL 13. A table of an earlier release lacks the column until something is stored.
SELECT coalesce(pg_catalog.to_jsonb(f) -> 'switches', '[]') FROM ${schema}.${prefix}failover f
