-- COLS_VIEW: the live structure of the replicated tables, one row a column that travels.
-- Called by: a person after resources_v1.sql; the packages read it.
-- Placeholders: ${prefix} as in resources_v1.sql. Result: none.
-- Privileges: CREATE VIEW; ALL_TAB_COLS shows tables on which the account has a privilege. Oldest version: Oracle 12.2.

-- KEYPOS: place in the key, 0 outside of it. The key is the primary key, if it is enabled and not deferrable; else the first
-- by name of the unique constraints that are so, too, and whose columns are NOT NULL.
CREATE OR REPLACE VIEW ${prefix}COLS_VIEW AS
WITH CANDIDATES AS (
    SELECT c.OWNER, c.TABLE_NAME, c.CONSTRAINT_NAME,
           ROW_NUMBER() OVER (PARTITION BY c.OWNER, c.TABLE_NAME ORDER BY c.CONSTRAINT_TYPE, c.CONSTRAINT_NAME) AS PLACE
    FROM ALL_CONSTRAINTS c
    WHERE c.CONSTRAINT_TYPE IN ('P', 'U') AND c.STATUS = 'ENABLED' AND c.VALIDATED = 'VALIDATED'
      AND c.DEFERRABLE = 'NOT DEFERRABLE'
      AND NOT EXISTS (
          SELECT 1
          FROM ALL_CONS_COLUMNS k
          JOIN ALL_TAB_COLS a ON a.OWNER = k.OWNER AND a.TABLE_NAME = k.TABLE_NAME AND a.COLUMN_NAME = k.COLUMN_NAME
          WHERE k.OWNER = c.OWNER AND k.CONSTRAINT_NAME = c.CONSTRAINT_NAME
            AND (a.NULLABLE = 'Y' OR a.VIRTUAL_COLUMN = 'YES'))
)
SELECT t.SCHEMANAME, t.TABLENAME, c.COLUMN_ID, c.INTERNAL_COLUMN_ID, c.COLUMN_NAME, c.DATA_TYPE, c.DATA_TYPE_OWNER,
       c.DATA_LENGTH, c.DATA_PRECISION, c.DATA_SCALE, c.CHAR_LENGTH, c.CHAR_USED, c.NULLABLE,
       NVL((SELECT k.POSITION
            FROM CANDIDATES f
            JOIN ALL_CONS_COLUMNS k ON k.OWNER = f.OWNER AND k.CONSTRAINT_NAME = f.CONSTRAINT_NAME
            WHERE f.OWNER = c.OWNER AND f.TABLE_NAME = c.TABLE_NAME AND f.PLACE = 1
              AND k.COLUMN_NAME = c.COLUMN_NAME), 0) AS KEYPOS
FROM ${prefix}TABLES t
JOIN ALL_TAB_COLS c ON c.OWNER = t.SCHEMANAME AND c.TABLE_NAME = t.TABLENAME
WHERE c.VIRTUAL_COLUMN = 'NO' AND (c.HIDDEN_COLUMN = 'NO' OR c.USER_GENERATED = 'YES');
