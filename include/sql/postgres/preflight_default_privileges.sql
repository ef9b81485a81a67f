-- Owners whose future tables and sequences this account could not read.
-- Called by: the preflight, on the master.
-- Parameters: schemas text[], owners text[]: schema and quoted owner (pairs).
-- Result, one row for each pair with missing privileges: schema, quoted schema, owner quoted, whether new tables lack
--   SELECT or TRIGGER, whether new sequences lack SELECT.
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
