-- Sequences that no column of a replicated table uses; applications call them.
-- Called by: sluice.failover and the apply, on the master and on the slave; the preflight, on the master.
-- Placeholders: ${prefix} e.g. demo_, whose own are left out.
-- Parameter: schemas text[]: those of the replicated tables, in which sequences are looked for.
-- Result: schema, name, increment, minimum, maximum, the last value (NULL: none drawn yet, or not readable), type,
--   start, cache, cycle, whether this account may read that value, owner of the sequence, quoted.
-- Privileges: SELECT or USAGE on the sequences.
-- Oldest version: PostgreSQL 14.
SELECT n.nspname::text, c.relname::text, s.seqincrement, s.seqmin, s.seqmax,
       CASE WHEN has_sequence_privilege(c.oid, 'SELECT, USAGE') THEN pg_catalog.pg_sequence_last_value(c.oid) END,
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
