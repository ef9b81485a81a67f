-- Ranges and order of keys. Each statement is a section with its name.
-- Oldest version: PostgreSQL 13.

-- name: key_matching
-- The keys of the rows that match a condition.
-- Called by: an initial update of a part of a table, on the slave. Placeholders (texts, source, where): the texts of the
--   key's columns; the table; the condition, written by a person.
-- Privileges: SELECT on the table.
SELECT ${texts} FROM ${source} WHERE (
${where}
)

-- name: key_order
-- How the columns of a key are ordered: the operators of the default btree operator class of each type.
-- Called by: sluice.vendors.postgres.key_order, on the master.
-- Parameters: schema, name of the table; columns text[] in the key's order.
-- Result: one row a column, in that order: the operators < and = (for OPERATOR(), schema-qualified), and whether the
--   order is the same in every database: no collation but C, no type that a database defines itself. A domain orders as
--   its base type; enums, arrays, ranges and composites share classes of pg_catalog.
-- Privileges: none.
WITH RECURSIVE keys AS (
    SELECT w.n, a.atttypid AS type, a.attcollation
    FROM unnest(%(columns)s::text[]) WITH ORDINALITY AS w (name, n)
    JOIN pg_catalog.pg_namespace s ON s.nspname = %(schema)s
    JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid AND c.relname = %(name)s
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = w.name AND NOT a.attisdropped
), bases AS (
    SELECT k.n, k.type, k.attcollation, t.typtype, t.typbasetype
    FROM keys k JOIN pg_catalog.pg_type t ON t.oid = k.type
    UNION ALL
    SELECT b.n, b.typbasetype, b.attcollation, t.typtype, t.typbasetype
    FROM bases b JOIN pg_catalog.pg_type t ON t.oid = b.typbasetype
    WHERE b.typtype = 'd'
), operators AS (
    SELECT b.n, o.amopstrategy, format('%%I.%%s', s.nspname, p.oprname) AS operator
    FROM bases b
    JOIN pg_catalog.pg_opclass c ON c.opcintype = b.type AND c.opcdefault
    JOIN pg_catalog.pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
    JOIN pg_catalog.pg_amop o ON o.amopfamily = c.opcfamily AND o.amoplefttype = b.type AND o.amoprighttype = b.type
    JOIN pg_catalog.pg_operator p ON p.oid = o.amopopr
    JOIN pg_catalog.pg_namespace s ON s.oid = p.oprnamespace
    WHERE b.typtype <> 'd'
)
SELECT coalesce(max(o.operator) FILTER (WHERE o.amopstrategy = 1), 'pg_catalog.<'),
       coalesce(max(o.operator) FILTER (WHERE o.amopstrategy = 3), 'pg_catalog.='),
       b.type < 16384 AND b.typtype = 'b'
           AND (b.attcollation = 0 OR (SELECT l.collname IN ('C', 'POSIX', 'ucs_basic') FROM pg_catalog.pg_collation l
                                       WHERE l.oid = b.attcollation))
FROM bases b
LEFT JOIN operators o ON o.n = b.n
WHERE b.typtype <> 'd'
GROUP BY b.n, b.type, b.typtype, b.attcollation
ORDER BY b.n

-- name: key_runs
-- Runs of neighbouring rows along a table's key that match a condition: where it begins and ends to hold.
-- Called by: an initial update of a part of a table, on the master, in a read-only transaction. Placeholders (keys,
--   texts, source, within, where): the key's columns; their texts; the table; a range of its keys; the condition, written
--   by a person.
-- Result: the key's texts, whether the condition holds, and the row's number, for each row where that changes, in key
--   order.
-- Privileges: SELECT on the table.
SELECT ${texts}, "sluice hit", "sluice number" FROM (
    SELECT ${keys}, "sluice hit", lag("sluice hit") OVER along AS "sluice before",
        row_number() OVER along AS "sluice number"
    FROM (
        SELECT ${keys}, coalesce((
${where}
        ), false) AS "sluice hit"
        FROM ${source} WHERE ${within}
    ) AS t
    WINDOW along AS (ORDER BY ${keys})
) AS t
WHERE "sluice hit" IS DISTINCT FROM "sluice before"
ORDER BY ${keys}
