-- Taking privileges back. Each statement is a section with its name.
-- Privileges: none.

-- name: revokes
-- The statements that revoke every privilege of an account in this database, default privileges included, and what it has
--   on the whole server: memberships, BYPASSRLS.
-- Called by: ./sluice remove --revoke, which prints them and asks before it runs them. Parameter: role text.
-- Result: one statement a row, without `;`. Objects that the account owns are left out.
-- Oldest version: PostgreSQL 14.
WITH grantee AS (
    SELECT r.oid, format('%%I', r.rolname) AS name FROM pg_catalog.pg_roles r WHERE r.rolname = %(role)s
), objects (place, object, owner, privileges) AS (
    SELECT 1, CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || format('%%I.%%I', n.nspname, c.relname),
           c.relowner, c.relacl
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    UNION ALL
    SELECT 2, 'FUNCTION ' || format('%%I.%%I(%%s)', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid)),
           p.proowner, p.proacl
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    UNION ALL
    SELECT 3, 'TYPE ' || format('%%I.%%I', n.nspname, t.typname), t.typowner, t.typacl
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    UNION ALL
    SELECT 4, 'LANGUAGE ' || format('%%I', l.lanname), l.lanowner, l.lanacl FROM pg_catalog.pg_language l
    UNION ALL
    SELECT 5, 'SCHEMA ' || format('%%I', n.nspname), n.nspowner, n.nspacl FROM pg_catalog.pg_namespace n
    UNION ALL
    SELECT 7, 'DATABASE ' || format('%%I', d.datname), d.datdba, d.datacl
    FROM pg_catalog.pg_database d WHERE d.datname = current_database()
), statements AS (
    SELECT o.place, o.object,
           format('REVOKE %%s ON %%s FROM %%s', string_agg(DISTINCT a.privilege_type, ', '), o.object, g.name) AS statement
    FROM objects o
    CROSS JOIN LATERAL pg_catalog.aclexplode(o.privileges) a
    JOIN grantee g ON g.oid = a.grantee AND g.oid <> o.owner
    GROUP BY o.place, o.object, g.name
    UNION ALL
    SELECT 6, o.rolname || coalesce(n.nspname, '') || d.defaclobjtype::text,
           format('ALTER DEFAULT PRIVILEGES FOR ROLE %%I %%sREVOKE %%s ON %%s FROM %%s', o.rolname,
                  CASE WHEN n.oid IS NOT NULL THEN format('IN SCHEMA %%I ', n.nspname) ELSE '' END,
                  string_agg(DISTINCT a.privilege_type, ', '),
                  CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS'
                      WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS' END, g.name)
    FROM grantee g
    JOIN pg_catalog.pg_default_acl d ON d.defaclrole <> g.oid AND d.defaclobjtype IN ('r', 'S', 'f', 'T', 'n')
    JOIN pg_catalog.pg_roles o ON o.oid = d.defaclrole
    LEFT JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace
    CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) a
    WHERE a.grantee = g.oid
    GROUP BY o.rolname, n.nspname, n.oid, d.defaclobjtype, g.name
    UNION ALL
    SELECT 8, r.rolname, format('REVOKE %%I FROM %%s', r.rolname, g.name)
           || CASE WHEN b.oid IS NULL THEN '' ELSE format(' GRANTED BY %%I', b.rolname) END
    FROM grantee g
    JOIN pg_catalog.pg_auth_members m ON m.member = g.oid
    JOIN pg_catalog.pg_roles r ON r.oid = m.roleid
    LEFT JOIN pg_catalog.pg_roles b ON b.oid = m.grantor
    UNION ALL
    SELECT 8, '', format('ALTER ROLE %%s NOBYPASSRLS', g.name) FROM grantee g
    JOIN pg_catalog.pg_roles r ON r.oid = g.oid AND r.rolbypassrls
    UNION ALL
    -- What slave_grants.sql sets where it cannot be granted.
    SELECT 9, '', format('ALTER ROLE %%s IN DATABASE %%I RESET session_replication_role', g.name, d.datname)
    FROM grantee g
    JOIN pg_catalog.pg_db_role_setting s ON s.setrole = g.oid
    JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase AND d.datname = current_database()
    WHERE EXISTS (SELECT FROM unnest(s.setconfig) AS c (setting) WHERE c.setting LIKE 'session\_replication\_role=%%')
)
SELECT s.statement FROM statements s ORDER BY s.place, s.object

-- name: revokes_settings
-- The statements that revoke the right of an account to change settings of the whole server.
-- Called by: ./sluice remove --revoke, as revokes.sql. Parameter: role text.
-- Result: one statement a row, without `;`.
-- Oldest version: PostgreSQL 15.
SELECT format('REVOKE %%s ON PARAMETER %%s FROM %%I', a.privilege_type, p.parname, r.rolname)
FROM pg_catalog.pg_roles r
CROSS JOIN pg_catalog.pg_parameter_acl p
CROSS JOIN LATERAL pg_catalog.aclexplode(p.paracl) a
WHERE r.rolname = %(role)s AND a.grantee = r.oid
ORDER BY p.parname
