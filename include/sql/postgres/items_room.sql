-- What bounds the growth of ITEMS where the configuration says nothing.
-- Called by: housekeeping, on the master.
-- Placeholders: ${prefix}, ${schema}.
-- Result: bytes of the files of ITEMS; bytes of the database; the first file of ITEMS, NULL where this account may not
--   run a program on the server, which alone can tell how much of a disk is free.
-- Privileges: CONNECT to the database. Oldest version: PostgreSQL 14.
SELECT pg_catalog.pg_total_relation_size(i.oid), pg_catalog.pg_database_size(pg_catalog.current_database()),
       CASE WHEN pg_catalog.pg_has_role('pg_execute_server_program', 'USAGE') THEN pg_catalog.pg_relation_filepath(i.oid) END
FROM (SELECT $s$ ${schema}.${prefix}items$s$::pg_catalog.regclass::oid AS oid) i
