-- Why changes of one table were set aside on a slave, the commonest reasons first.
-- Called by: the verification, to name the likely cause of a difference.
-- Placeholders: ${prefix} e.g. demo_, ${schema} quoted schema of the slave's resources. Parameters: slave,
-- table_schema, table, statuses. Result: reason text, changes bigint; twenty rows at most.
-- Privileges: SELECT on the table. Oldest version: PostgreSQL 13.
SELECT reason, count(*) FROM ${schema}.${prefix}rejects
WHERE slave = %(slave)s AND schema = %(table_schema)s AND tablename = %(table)s AND status = ANY (%(statuses)s)
GROUP BY reason ORDER BY 2 DESC, 1 LIMIT 20
