-- Inserts the rows of the source; ${condition} keeps those out that are there (safe mode), or is true.
-- Called by: sluice.vendors.postgres.merge.
-- Placeholders: ${target} without ONLY, ${columns}, ${values} s.cN, …, ${source}, ${condition}.
-- OVERRIDING SYSTEM VALUE: the master's value goes into an identity column, whatever its kind.
-- Privileges: INSERT on the table (and SELECT in safe mode). Oldest version: PostgreSQL 13.
INSERT INTO ${target} (${columns}) OVERRIDING SYSTEM VALUE SELECT ${values} FROM ${source} s WHERE ${condition}
