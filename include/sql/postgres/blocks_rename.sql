-- The blocks of a table that got another name. Called by: the apply, in the transaction that renames the table.
-- Placeholders: ${prefix}, ${schema}. Parameters: slave; schema, name; new_schema, new_name. Privileges: UPDATE on BLOCKS.
UPDATE ${schema}.${prefix}blocks SET schema = %(new_schema)s, tablename = %(new_name)s
WHERE slave = %(slave)s AND schema = %(schema)s AND tablename = %(name)s
