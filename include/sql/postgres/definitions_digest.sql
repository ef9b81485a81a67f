-- A digest of everything that the comparison of definitions reads: the tables; indexes, constraints, triggers and
-- comments of captured tables; checks of domains; views and sequences. Reads only catalogues, and locks no table. Each hash
-- is hashed once more, so that the sum changes where two rows exchange a value.
-- Called by: the apply, regularly.
-- Placeholders: ${prefix}, ${schema}.
-- Result: a text.
-- Privileges: SELECT on CAPTURES.
-- Oldest version: PostgreSQL 14.
WITH captured AS MATERIALIZED (
    SELECT h.relid FROM ${schema}.${prefix}captures h WHERE h.mode <> 'dropped'
)
SELECT concat_ws(' ',
    (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(c.oid, c.relname, c.relnamespace), 0))), 0))
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
       AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'),
    (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(i.indexrelid, c.relname, i.indisvalid, i.indisready), 0))), 0))
     FROM captured t JOIN pg_catalog.pg_index i ON i.indrelid = t.relid
     JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid),
    (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(k.oid, k.conname, k.convalidated, k.condeferrable, k.condeferred), 0))), 0))
     FROM captured t JOIN pg_catalog.pg_constraint k ON k.conrelid = t.relid),
    (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(k.oid, k.conname, k.convalidated), 0))), 0))
     FROM pg_catalog.pg_constraint k WHERE k.conrelid = 0),
    -- Before PostgreSQL 17 NOT NULL of a domain is no constraint.
    (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(y.oid, y.typnotnull), 0))), 0))
     FROM pg_catalog.pg_type y WHERE y.typtype = 'd' AND y.oid >= 16384),
    (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(g.oid, g.tgname, g.tgenabled), 0))), 0))
     FROM captured t JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.relid WHERE NOT g.tgisinternal),
    (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(d.objoid, d.objsubid, d.description), 0))), 0))
     FROM captured t JOIN pg_catalog.pg_description d
       ON d.objoid = t.relid AND d.classoid = 'pg_catalog.pg_class'::regclass),
    -- What replaces the query of a view writes its rule anew.
    (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(c.oid, c.relname, c.relnamespace, c.reloptions, r.xmin::text), 0))), 0))
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_catalog.pg_rewrite r ON r.ev_class = c.oid
     WHERE c.relkind = 'v' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'),
    (SELECT sum(hash_record_extended(ROW(int8send(hash_record_extended(ROW(c.relname, c.relnamespace, s.*), 0))), 0))
     FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid))
