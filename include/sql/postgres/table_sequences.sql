-- Sequences of the columns of tables: of identity columns and of defaults.
-- Called by: the initial update, on master and slave.
-- Parameters: schemas text[], names text[]: the tables (pairs).
-- Result: schema, name of the table, column, identity bool, owned bool (goes with the column), schema, name of the
--   sequence, type, start, increment, minimum, maximum, cache, cycle, last value (NULL: never used, or no privilege),
--   whether this account may read that value, may set it; owner of the sequence, quoted.
-- Privileges: SELECT on the sequences for the last value.
-- Oldest version: PostgreSQL 13.
SELECT w.schema, w.name, a.attname::text, u.identity, o.objid IS NOT NULL OR u.identity,
       sn.nspname::text, q.relname::text, pg_catalog.format_type(s.seqtypid, NULL),
       s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle,
       CASE WHEN has_sequence_privilege(q.oid, 'SELECT, USAGE') THEN pg_catalog.pg_sequence_last_value(q.oid) END,
       has_sequence_privilege(q.oid, 'SELECT, USAGE'), has_sequence_privilege(q.oid, 'UPDATE'), format('%%I', r.rolname)
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN LATERAL (
    SELECT d.objid AS sequence, true AS identity
    FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
      AND d.refobjid = c.oid AND d.refobjsubid = a.attnum AND d.deptype = 'i' AND a.attidentity <> ''
    UNION
    SELECT d.refobjid, false
    FROM pg_catalog.pg_attrdef f
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = f.oid
                               AND d.refclassid = 'pg_catalog.pg_class'::regclass
    WHERE f.adrelid = c.oid AND f.adnum = a.attnum
) u ON true
JOIN pg_catalog.pg_class q ON q.oid = u.sequence AND q.relkind = 'S'
JOIN pg_catalog.pg_namespace sn ON sn.oid = q.relnamespace
JOIN pg_catalog.pg_sequence s ON s.seqrelid = q.oid
JOIN pg_catalog.pg_roles r ON r.oid = q.relowner
LEFT JOIN pg_catalog.pg_depend o
    ON o.classid = 'pg_catalog.pg_class'::regclass AND o.objid = q.oid AND o.deptype = 'a'
   AND o.refclassid = 'pg_catalog.pg_class'::regclass AND o.refobjid = c.oid AND o.refobjsubid = a.attnum
ORDER BY w.schema, w.name, a.attnum
