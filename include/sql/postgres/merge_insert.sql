-- Inserts the rows of the source; ${condition} keeps those out that are there (safe mode), or is true. Where there is
-- one, ${order} sorts by the key: so all rows are judged before the first is inserted. Else the plan for a table that is
-- believed to be empty, a loop over all of it, would look at whatever the statement itself has inserted so far.
-- Called by: sluice.vendors.postgres.target.merge.
-- Placeholders: ${target} without ONLY, ${columns}, ${values} s.cN, …, ${source}, ${condition}, ${order}.
-- OVERRIDING SYSTEM VALUE: the master's value goes into an identity column, whatever its kind.
-- Privileges: INSERT on the table (and SELECT in safe mode). Oldest version: PostgreSQL 13.
INSERT INTO ${target} (${columns}) OVERRIDING SYSTEM VALUE SELECT ${values} FROM ${source} s WHERE ${condition} ${order}
