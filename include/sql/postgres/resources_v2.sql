-- DbResources of one prefix on a PostgreSQL master, step 2: the labels of enums, and the bounds of partitions.
-- Called by: sluice.capture, and by hand, as resources_v1.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: those of the account that installed step 1.
-- Oldest version: PostgreSQL 14.

-- The enums and domains of the table's columns, as in its present definition (definition.sql).
ALTER TABLE ${schema}.${prefix}current_tables ADD COLUMN IF NOT EXISTS enums text NOT NULL DEFAULT '';

-- The partitions with rows of each captured table, and the condition for their rows (NULL: unknown). A removed partition
-- can no longer be read; its condition tells which rows it had. There is no key: two sessions that write to a new
-- partition at the same time may both record it, and neither waits for the other. FOLLOWED: the rows that the partition
-- had when it was added are queued; false if only a row that was written to it has recorded it.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}partitions (
    relid oid NOT NULL,
    leaf oid NOT NULL,
    bound text,
    followed boolean NOT NULL
);
INSERT INTO ${schema}.${prefix}partitions (relid, leaf, bound, followed)
    SELECT c.relid, l.leaf, NULL, true FROM ${schema}.${prefix}captures c CROSS JOIN unnest(c.leaves) AS l (leaf)
    WHERE c.mode <> 'dropped' AND NOT EXISTS (
        SELECT FROM ${schema}.${prefix}partitions p WHERE p.relid = c.relid AND p.leaf = l.leaf);

-- Functions whose parameters have changed: with both versions, calls would be ambiguous.
DROP FUNCTION IF EXISTS ${schema}.${prefix}recapture(text, text, text, oid), ${schema}.${prefix}follow_partitions(text, text, oid, oid[]);
