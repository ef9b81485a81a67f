-- What this account may do with tables and their partitions: a trigger of a table is created on each of them, on every
-- level.
-- Called by: the preflight, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result, one row for each existing table or partition: schema and name of the table; whether the relation is a
--   partition of it; schema of the relation, its quoted name with the schema, owner quoted; whether it is partitioned;
--   whether the account has the owner's rights, and whether the owner is a superuser; the privileges it has, of SELECT,
--   INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER, as text[]; whether row level security hides rows from it; whether
--   publications of this database need old values of changed or deleted rows, which it does not provide.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
WITH wanted AS (
    SELECT w.schema, w.name, c.oid
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
), published AS MATERIALIZED (
    SELECT DISTINCT t.schemaname, t.tablename
    FROM pg_catalog.pg_publication p
    JOIN pg_catalog.pg_publication_tables t ON t.pubname = p.pubname
    WHERE p.pubupdate OR p.pubdelete
), relations AS (
    SELECT w.schema, w.name, false AS partition, w.oid FROM wanted w
    UNION ALL
    SELECT w.schema, w.name, true, t.relid
    FROM wanted w
    JOIN pg_catalog.pg_class c ON c.oid = w.oid AND c.relkind = 'p'
    CROSS JOIN LATERAL pg_catalog.pg_partition_tree(w.oid) t
    JOIN pg_catalog.pg_class l ON l.oid = t.relid AND l.relkind IN ('r', 'p') AND l.oid <> w.oid
)
SELECT x.schema, x.name, x.partition, n.nspname::text, format('%%I.%%I', n.nspname, c.relname), format('%%I', r.rolname),
       c.relkind = 'p',
       pg_catalog.pg_has_role(current_user, c.relowner, 'USAGE'), r.rolsuper,
       ARRAY(SELECT p.privilege FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) AS p (privilege)
             WHERE pg_catalog.has_table_privilege(c.oid, p.privilege)),
       pg_catalog.row_security_active(c.oid),
       c.relkind = 'r' AND c.relreplident IN ('d', 'n')
       AND NOT (c.relreplident = 'd' AND EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
       AND EXISTS (SELECT FROM published b WHERE b.schemaname = n.nspname AND b.tablename = c.relname)
FROM relations x
JOIN pg_catalog.pg_class c ON c.oid = x.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
ORDER BY x.schema, x.name, x.partition, 5
