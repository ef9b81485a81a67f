-- Marks a block as exported: its file is complete.
-- Called by: an exporter, after it wrote the file.
-- Placeholders: ${prefix}, ${schema}, ${clock}.
-- Parameters: slave, table_schema, name, block, loader, marker, rows, bytes, file, sha256.
-- Result: no row changes if the block no longer belongs to this loader; the caller then removes its file.
-- Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks
SET state = 'exported', stored_at = ${clock}, marker = %(marker)s, "rows" = %(rows)s, bytes = %(bytes)s,
    "file" = %(file)s, sha256 = %(sha256)s
WHERE slave = %(slave)s AND "schema" = %(table_schema)s AND tablename = %(name)s AND block = %(block)s
  AND state = 'begun' AND loader = %(loader)s
