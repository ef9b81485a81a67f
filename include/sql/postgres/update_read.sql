-- State and owner of a slave's load. Called by: loaders before each block. Placeholders: ${prefix}, ${schema}.
-- Parameter: slave. Result: state, update_id, message.
SELECT state, update_id, message FROM ${schema}.${prefix}checkpoint WHERE slave = %(slave)s
