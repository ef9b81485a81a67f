-- REJECTS. Each statement is a section with its name.
-- Oldest version: PostgreSQL 13.

-- name: rejects_complete
-- Whether REJECTS has all columns of this release.
-- Called by: the apply when it starts.
-- Placeholders: ${relation} the table, quoted, as a literal.
-- Result: one bool; NULL: there is no such table.
-- Privileges: none.
SELECT CASE WHEN to_regclass(${relation}) IS NOT NULL THEN EXISTS (
    SELECT FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = to_regclass(${relation}) AND a.attname = 'answer' AND NOT a.attisdropped) END

-- name: rejects_upgrade
-- Adds missing columns to a REJECTS of an earlier release.
-- Called by: the apply when it starts, if one is missing.
-- Placeholders: ${prefix}, ${schema}.
-- Privileges: owner of the table.
ALTER TABLE ${schema}.${prefix}rejects
    ADD COLUMN IF NOT EXISTS held        text,
    ADD COLUMN IF NOT EXISTS key_columns text[] NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS keys        text[] NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS newer       bigint,
    ADD COLUMN IF NOT EXISTS status      text NOT NULL DEFAULT 'set aside',
    ADD COLUMN IF NOT EXISTS force       boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS asked_by    text,
    ADD COLUMN IF NOT EXISTS asked_at    timestamptz,
    ADD COLUMN IF NOT EXISTS settled_by  text,
    ADD COLUMN IF NOT EXISTS settled_at  timestamptz,
    ADD COLUMN IF NOT EXISTS answer      text
