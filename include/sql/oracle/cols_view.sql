-- COLS_VIEW: the current structure of the replicated tables, one row a replicated column.
-- Called by: sluice.vendors.oracle.source.resources; or a person after resources_v1.sql. The packages read it.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE VIEW; ALL_TAB_COLS shows only tables on which the account has a privilege.
-- Oldest version: Oracle 12.2.

-- KEYPOS: position in the key, 0 if the column is not part of it. The key has the columns of a unique index without
-- expressions and without columns that may be NULL: the primary key's, else the first by name. A deferrable constraint has
-- no such index.
CREATE OR REPLACE NONEDITIONABLE VIEW ${prefix}COLS_VIEW AS
WITH CANDIDATES AS (
    SELECT i.OWNER, i.INDEX_NAME, i.TABLE_OWNER, i.TABLE_NAME,
           ROW_NUMBER() OVER (
               PARTITION BY i.TABLE_OWNER, i.TABLE_NAME
               ORDER BY CASE WHEN p.INDEX_NAME IS NULL THEN 1 ELSE 0 END, i.INDEX_NAME) AS PLACE
    FROM ${prefix}TABLES r
    JOIN ALL_INDEXES i ON i.TABLE_OWNER = r.SCHEMANAME AND i.TABLE_NAME = r.TABLENAME
    LEFT JOIN ALL_CONSTRAINTS p ON p.OWNER = i.TABLE_OWNER AND p.TABLE_NAME = i.TABLE_NAME AND p.CONSTRAINT_TYPE = 'P'
        AND p.INDEX_NAME = i.INDEX_NAME
    WHERE i.UNIQUENESS = 'UNIQUE' AND i.INDEX_TYPE IN ('NORMAL', 'NORMAL/REV', 'IOT - TOP')
      AND NOT EXISTS (
          SELECT 1
          FROM ALL_IND_COLUMNS k
          JOIN ALL_TAB_COLS a ON a.OWNER = k.TABLE_OWNER AND a.TABLE_NAME = k.TABLE_NAME AND a.COLUMN_NAME = k.COLUMN_NAME
          WHERE k.INDEX_OWNER = i.OWNER AND k.INDEX_NAME = i.INDEX_NAME
            AND (a.NULLABLE = 'Y' OR a.VIRTUAL_COLUMN = 'YES'))
)
SELECT t.SCHEMANAME, t.TABLENAME, c.COLUMN_ID, c.INTERNAL_COLUMN_ID, c.COLUMN_NAME, c.DATA_TYPE, c.DATA_TYPE_OWNER,
       c.DATA_LENGTH, c.DATA_PRECISION, c.DATA_SCALE, c.CHAR_LENGTH, c.CHAR_USED, c.NULLABLE,
       NVL((SELECT k.COLUMN_POSITION
            FROM CANDIDATES f
            JOIN ALL_IND_COLUMNS k ON k.INDEX_OWNER = f.OWNER AND k.INDEX_NAME = f.INDEX_NAME
            WHERE f.TABLE_OWNER = c.OWNER AND f.TABLE_NAME = c.TABLE_NAME AND f.PLACE = 1
              AND k.COLUMN_NAME = c.COLUMN_NAME), 0) AS KEYPOS
FROM ${prefix}TABLES t
JOIN ALL_TAB_COLS c ON c.OWNER = t.SCHEMANAME AND c.TABLE_NAME = t.TABLENAME
-- An XMLTYPE column may count as virtual, since its storage is a hidden column.
WHERE (c.VIRTUAL_COLUMN = 'NO' OR c.DATA_TYPE = 'XMLTYPE') AND (c.HIDDEN_COLUMN = 'NO' OR c.USER_GENERATED = 'YES');
