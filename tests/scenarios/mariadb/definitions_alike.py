"""What a MariaDB slave has of its master's indexes and foreign keys, compared by their columns."""

from typing import Any

from sluice.model.names import TableName
from sluice.vendors.mysql import catalog as slave_catalog
from tests.scenarios.mariadb.rig import Rig

INDEXES = """
SELECT n.nspname, c.relname, i.indisunique, (
    SELECT array_agg(a.attname::text ORDER BY k.place)
    FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (num, place)
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.num WHERE k.place <= i.indnkeyatts
)
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_class AS x ON x.oid = i.indexrelid JOIN pg_am AS m ON m.oid = x.relam
WHERE n.nspname = 'public' AND NOT i.indisprimary AND i.indpred IS NULL AND i.indexprs IS NULL AND m.amname = 'btree'
"""
FOREIGN_KEYS = """
SELECT c.relname, p.relname,
    (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(conkey) WITH ORDINALITY AS k (num, place)
     JOIN pg_attribute AS a ON a.attrelid = conrelid AND a.attnum = k.num),
    (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(confkey) WITH ORDINALITY AS k (num, place)
     JOIN pg_attribute AS a ON a.attrelid = confrelid AND a.attnum = k.num),
    NOT EXISTS (
        SELECT 1 FROM unnest(conkey, confkey) AS k (num, parent)
        JOIN pg_attribute AS a ON a.attrelid = conrelid AND a.attnum = k.num
        JOIN pg_attribute AS p ON p.attrelid = confrelid AND p.attnum = k.parent
        WHERE (a.atttypid, a.atttypmod) <> (p.atttypid, p.atttypmod)
    )
FROM pg_constraint JOIN pg_class AS c ON c.oid = conrelid JOIN pg_class AS p ON p.oid = confrelid
WHERE contype = 'f' AND convalidated AND connamespace = 'public'::regnamespace
"""


def differing(pair: Rig) -> list[str]:
    """Indexes and foreign keys that one of both sides has alone. A longer index may serve for one that is not unique,
    without included columns; MariaDB gives each foreign key an index, may have none whose columns are of two types, and
    has no unique index and no foreign key of texts without a length, or of too long ones."""
    tables = pair.tables()
    own: dict[TableName, list[Any]] = {table: [] for table in tables}
    for index in slave_catalog.own_indexes(pair.slave, tables):
        own[index.table].append(index)
    found, unique = [], set()
    for schema, name, is_unique, columns in pair.master.execute(INDEXES.encode()).fetchall():
        table, wanted = TableName(schema, name), tuple(columns)
        if table not in own:
            continue
        if is_unique:
            unique.add((table, wanted))
            long = _texts_without_length(pair, table) & set(wanted)
            there = bool(long) or any(each.unique and each.columns == wanted for each in own[table])
        else:
            there = any(each.columns[: len(wanted)] == wanted for each in own[table])
        if not there:
            found.append(f"index of {table} {wanted}")
    found += [
        f"only on the slave: unique index {each.name} of {table} {each.columns}"
        for table, indexes in own.items()
        for each in indexes
        if each.unique and not each.primary and (table, each.columns) not in unique
    ]
    keys = {
        (child, parent, tuple(columns), tuple(parents)): alike
        for child, parent, columns, parents, alike in pair.master.execute(FOREIGN_KEYS.encode()).fetchall()
    }
    own_keys = {
        (each.key.child.name, each.key.parent.name, each.key.columns, each.key.parent_columns)
        for each in slave_catalog.foreign_keys(pair.slave, tables)
    }
    long_texts = {table.name: _texts_without_length(pair, table) for table in tables}
    referable = {(table.name, each.columns) for table, indexes in own.items() for each in indexes if each.unique}
    found += [
        f"foreign key {key}"
        for key, alike in sorted(keys.items())
        if alike and key not in own_keys
        if (key[1], key[3]) in referable and not long_texts.get(key[0], set()) & set(key[2])
    ]
    return found + [f"only on the slave: foreign key {key}" for key in sorted(own_keys - keys.keys())]


def _texts_without_length(pair: Rig, table: TableName) -> set[str]:
    shape = slave_catalog.shape(pair.slave, table)
    return {column.name for column in shape.columns if column.type.endswith("text")} if shape is not None else set()
