-- Whether a block is still begun by this loader. Called by: a loader, while it copies. Parameters: slave, schema, name,
-- block, loader. Result: one boolean. Placeholders: ${prefix}, ${schema}.
SELECT EXISTS (SELECT FROM ${schema}.${prefix}blocks
               WHERE slave = %(slave)s AND schema = %(schema)s AND tablename = %(name)s AND block = %(block)s
                 AND state = 'begun' AND loader = %(loader)s)
