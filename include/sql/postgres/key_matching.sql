-- The keys of the rows that match a condition.
-- Called by: an initial update of a part of a table, on the slave.
-- Placeholders (texts, source, where): the texts of the key's columns; the table; the condition, written by a person.
-- Privileges: SELECT on the table.
-- Oldest version: PostgreSQL 13.
SELECT ${texts} FROM ${source} WHERE (
${where}
)
