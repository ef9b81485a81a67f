-- Inserts the rows of the source. ${condition} excludes existing rows (safe mode), or is true. With a condition,
-- ${order} sorts by the key, so that all rows are tested before the first is inserted; otherwise the plan for a table
-- that counts as empty, a nested loop, would read what the statement itself inserts.
-- Called by: sluice.vendors.postgres.target.merge.
-- Placeholders: ${target} without ONLY, ${columns}, ${values} s.cN, …, ${source}, ${condition}, ${order}. OVERRIDING
--   SYSTEM VALUE: the master's value goes into an identity column, whatever its kind.
-- Privileges: INSERT on the table (and SELECT in safe mode).
-- Oldest version: PostgreSQL 13.
INSERT INTO ${target} (${columns}) OVERRIDING SYSTEM VALUE SELECT ${values} FROM ${source} s WHERE ${condition} ${order}
