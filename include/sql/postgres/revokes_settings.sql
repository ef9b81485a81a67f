-- The statements that revoke the right of an account to change settings of the whole server.
-- Called by: ./sluice remove --revoke, as revokes.sql.
-- Parameter: role text.
-- Result: one statement a row, without `;`.
-- Privileges: none.
-- Oldest version: PostgreSQL 15.
SELECT format('REVOKE %%s ON PARAMETER %%s FROM %%I', a.privilege_type, p.parname, r.rolname)
FROM pg_catalog.pg_roles r
CROSS JOIN pg_catalog.pg_parameter_acl p
CROSS JOIN LATERAL pg_catalog.aclexplode(p.paracl) a
WHERE r.rolname = %(role)s AND a.grantee = r.oid
ORDER BY p.parname
