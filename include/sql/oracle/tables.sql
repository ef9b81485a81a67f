-- Tables that can be replicated: those on which the account has a privilege, without Oracle's own, parts of other tables,
-- materialized views and their logs.
-- Called by: the expansion of wildcards in the configuration.
-- Parameters: none.
-- Result: owner, table; ordered.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT t.OWNER, t.TABLE_NAME
FROM ALL_TABLES t
JOIN ALL_USERS u ON u.USERNAME = t.OWNER
WHERE u.ORACLE_MAINTAINED = 'N' AND t.TABLE_NAME NOT LIKE 'BIN$%' AND t.TABLE_NAME NOT LIKE 'MLOG$\_%' ESCAPE '\'
  AND t.TABLE_NAME NOT LIKE 'RUPD$\_%' ESCAPE '\' AND NVL(t.IOT_TYPE, 'IOT') = 'IOT' AND t.SECONDARY = 'N' AND t.NESTED = 'NO'
  AND NOT EXISTS (SELECT 1 FROM ALL_MVIEWS m WHERE m.OWNER = t.OWNER AND m.CONTAINER_NAME = t.TABLE_NAME)
ORDER BY t.OWNER, t.TABLE_NAME
