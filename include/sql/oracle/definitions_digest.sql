-- A text that changes with every definition that the comparison of definitions reads: it holds the time of the newest
-- DDL of a captured table. For three seconds after a DDL it changes each time, since another one may share its second.
-- Called by: sluice.vendors.oracle.source.queue.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: none.
-- Result: a text.
-- Privileges: any on the tables.
-- Oldest version: Oracle 12.2.
SELECT COUNT(o.OBJECT_NAME) || ' ' || TO_CHAR(MAX(o.LAST_DDL_TIME), 'YYYY-MM-DD HH24:MI:SS')
       || CASE WHEN MAX(o.LAST_DDL_TIME) > SYSDATE - 3 / 86400 THEN TO_CHAR(SYSTIMESTAMP, ' HH24:MI:SS.FF3') END
FROM ${prefix}TABLES t
LEFT JOIN ALL_OBJECTS o ON o.OWNER = t.SCHEMANAME AND o.OBJECT_NAME = t.TABLENAME AND o.OBJECT_TYPE = 'TABLE'
