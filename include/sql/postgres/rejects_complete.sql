-- Whether REJECTS has all columns of this release.
-- Called by: the apply when it starts.
-- Placeholders: ${relation} the table, quoted, as a literal.
-- Result: one bool; NULL: there is no such table.
-- Privileges: none.
-- Oldest version: PostgreSQL 13.
SELECT CASE WHEN to_regclass(${relation}) IS NOT NULL THEN EXISTS (
    SELECT FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = to_regclass(${relation}) AND a.attname = 'answer' AND NOT a.attisdropped) END
