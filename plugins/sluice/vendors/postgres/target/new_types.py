"""Types and collations of the master's own, made and changed on a PostgreSQL slave as an item tells.

Enums are followed by `sluice.vendors.postgres.target.enums`. A domain is made without checks, which follow by
comparison. Texts of the master never become statements unless they are names or types.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import psycopg

from sluice.database.apply import DefinitionChange
from sluice.database.schema import CollationDefinition
from sluice.database.session import Session
from sluice.model.shape import Column
from sluice.model.table_definition import CompositeType, RangeType, TableDefinition
from sluice.vendors.postgres.connection import native, quoted
from sluice.vendors.postgres.expressions import definition_unreadable, type_of
from sluice.vendors.postgres.types import collation_statement, create_schema

_OF_SERVER = re.compile(r'pg_catalog\.(?:[a-z_][a-z0-9_$]*|"(?:[^"\x00]|"")+")', re.ASCII)
_SAVEPOINT = "sluice_type"


class AttributesDiffer(Exception):
    """The slave's composite type has other attributes than the master's had."""


def make(connection: Session, definition: TableDefinition) -> psycopg.Error | None:
    """Makes the types and collations of `definition` that the slave lacks, each after those that it consists of.

    Returns the error of the first one that consists of something the slave does not have. Raises other ones.
    """
    waiting = [
        (schema, statement)
        for kind, schema, name, statement in _creations(definition)
        if connection.execute(f"SELECT pg_catalog.to_reg{kind}(%s) IS NULL", [quoted(schema, name)]).fetchone()
        == (True,)
    ]
    while waiting:
        refused: list[tuple[tuple[str, str], psycopg.Error]] = []
        for schema, statement in waiting:
            try:
                with native(connection).transaction(_SAVEPOINT):
                    create_schema(connection, schema)
                    connection.execute(statement.encode())
            except psycopg.errors.UndefinedObject as error:
                refused.append(((schema, statement), error))
        if len(refused) == len(waiting):
            return refused[0][1]
        waiting = [one for one, _ in refused]
    return None


def _creations(definition: TableDefinition) -> list[tuple[str, str, str, str]]:
    """Kind (`type`, `collation`), schema, name and statement of each. Raises `definition-unreadable`."""
    found = []
    for own in definition.collations:
        wanted = CollationDefinition(
            own.schema,
            own.name,
            own.deterministic == "true",
            own.provider,
            own.locale,
            own.collate,
            own.ctype,
            own.rules,
        )
        found.append(("collation", own.schema, own.name, collation_statement(wanted)))
    for domain in definition.domains:
        base = type_of(_column("value", domain.type, domain.collation))
        found.append(
            ("type", domain.schema, domain.name, f"CREATE DOMAIN {quoted(domain.schema, domain.name)} AS {base}")
        )
    for composite in definition.composites:
        attributes = ", ".join(
            f"{quoted(each.name)} {type_of(_column(each.name, each.type, each.collation))}"
            for each in composite.attributes
        )
        statement = f"CREATE TYPE {quoted(composite.schema, composite.name)} AS ({attributes})"
        found.append(("type", composite.schema, composite.name, statement))
    found += [("type", one.schema, one.name, _range_statement(one)) for one in definition.ranges]
    return found


def _range_statement(wanted: RangeType) -> str:
    subtype = type_of(_column("subtype", wanted.subtype, None))
    for what, text in (("the operators of a range", wanted.opclass), ("the distance of a range", wanted.diff)):
        if text is not None and not _OF_SERVER.fullmatch(text):
            raise definition_unreadable(what, text)
    options = [f"SUBTYPE = {subtype}", f"SUBTYPE_OPCLASS = {wanted.opclass}"]
    if wanted.collation is not None:
        collated = type_of(_column("range", "text", wanted.collation))
        options.append(f"COLLATION = {collated.removeprefix('text COLLATE ')}")
    if wanted.diff is not None:
        options.append(f"SUBTYPE_DIFF = {wanted.diff}")
    options.append(f"MULTIRANGE_TYPE_NAME = {quoted(wanted.multirange_schema, wanted.multirange)}")
    return f"CREATE TYPE {quoted(wanted.schema, wanted.name)} AS RANGE ({', '.join(options)})"


def _column(name: str, type_: str, collation: str | None) -> Column:
    return Column(name, type_, 1, collation=collation)


def attributes(connection: Session, wanted: CompositeType) -> list[str] | None:
    """The names of the attributes of the slave's type of that name, in order; None without one."""
    row = connection.execute(
        "SELECT ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid "
        "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) FROM pg_catalog.pg_type t "
        "JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace "
        "WHERE t.typtype = 'c' AND n.nspname = %s AND t.typname = %s",
        [wanted.schema, wanted.name],
    ).fetchone()
    return None if row is None else list(row[0])


def absent(connection: Session, definition: TableDefinition, items: Sequence[DefinitionChange]) -> TableDefinition:
    """The definition without composite types and ranges that the slave has under any name that they have in `items`:
    they are renamed at their place among them."""
    names: dict[str | int | None, set[tuple[str, str]]] = {}
    for each in (known for item in items for known in (item.former, item.defined) if known is not None):
        numbered: list[CompositeType | RangeType] = [*each.composites, *each.ranges]
        for one in numbered:
            names.setdefault(one.number, set()).add((one.schema, one.name))

    def has(one: CompositeType | RangeType) -> bool:
        known = names.get(one.number, set()) if one.number is not None else set()
        return any(_kind(connection, name) in ("c", "r") for name in known)

    return replace(
        definition,
        composites=tuple(one for one in definition.composites if not has(one)),
        ranges=tuple(one for one in definition.ranges if not has(one)),
    )


def _kind(connection: Session, name: tuple[str, str]) -> str | None:
    """The kind of the slave's type of that schema and name, as `pg_type.typtype` has it; None without one."""
    row = connection.execute(
        "SELECT t.typtype::text FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace "
        "WHERE n.nspname = %s AND t.typname = %s",
        name,
    ).fetchone()
    return None if row is None else str(row[0])


def follow_names(connection: Session, old: TableDefinition, new: TableDefinition, run: Callable[[str], None]) -> None:
    """Renames composite types, ranges and multiranges by `run`."""
    ranges = {one.number: one for one in old.ranges}
    changed = [((was.schema, was.name), (now.schema, now.name), "c") for was, now in _both(old, new)]
    for now in new.ranges:
        if now.number is not None and (known := ranges.get(now.number)) is not None:
            changed += [
                ((known.schema, known.name), (now.schema, now.name), "r"),
                ((known.multirange_schema, known.multirange), (now.multirange_schema, now.multirange), "m"),
            ]
    for former, wanted, kind in changed:
        if _kind(connection, wanted) is None and _kind(connection, former) == kind:
            for statement in renames(former, wanted):
                run(statement)


def follow_attributes(
    connection: Session, old: TableDefinition, new: TableDefinition, run: Callable[[str], None]
) -> None:
    """Changes attributes of composite types by `run`. Raises `AttributesDiffer`."""
    for was, wanted in _both(old, new):
        for statement in changes(was, wanted, attributes(connection, wanted)):
            run(statement)


def _both(old: TableDefinition, new: TableDefinition) -> list[tuple[CompositeType, CompositeType]]:
    """The composite types of `new`, each behind what it was; a new one behind itself."""
    before = {one.number: one for one in old.composites}
    return [(before.get(one.number, one), one) for one in new.composites]


def renames(was: tuple[str, str], now: tuple[str, str]) -> list[str]:
    """The statements that give a type of schema and name `was` those of `now`."""
    statements = []
    if was[1] != now[1]:
        statements.append(f"ALTER TYPE {quoted(*was)} RENAME TO {quoted(now[1])}")
    if was[0] != now[0]:
        statements.append(f"ALTER TYPE {quoted(was[0], now[1])} SET SCHEMA {quoted(now[0])}")
    return statements


def changes(was: CompositeType, now: CompositeType, present: Sequence[str] | None) -> list[str]:
    """The statements that give the slave's type, whose attributes are `present`, those of `now`; none where another
    table's item, for the same type, has done so.

    Raises `AttributesDiffer` if the slave's are neither the former nor the present ones.
    """
    name = quoted(now.schema, now.name)
    if present is None:
        raise AttributesDiffer(f"type {name} is no composite type on the slave")
    before, after = ({each.number: each.name for each in one.attributes} for one in (was, now))
    if list(before.values()) == list(after.values()) and before.keys() != after.keys():
        raise AttributesDiffer(f"an attribute of type {name} was dropped, and another one got its name")
    if list(present) == list(after.values()):
        return []
    if list(present) != list(before.values()):
        had = ", ".join(before.values())
        raise AttributesDiffer(f"type {name} has on the slave: {', '.join(present)}; the master's had: {had}")
    statements = [
        f"ALTER TYPE {name} DROP ATTRIBUTE {quoted(label)}" for number, label in before.items() if number not in after
    ]
    moved = {number: label for number, label in before.items() if number in after and after[number] != label}
    # Through names that nobody has, since two attributes may exchange theirs.
    statements += [
        f"ALTER TYPE {name} RENAME ATTRIBUTE {quoted(label)} TO {quoted(f'sluice {number}')}"
        for number, label in moved.items()
    ]
    statements += [
        f"ALTER TYPE {name} RENAME ATTRIBUTE {quoted(f'sluice {number}')} TO {quoted(after[number])}"
        for number in moved
    ]
    statements += [
        f"ALTER TYPE {name} ADD ATTRIBUTE {quoted(each.name)} {type_of(_column(each.name, each.type, each.collation))}"
        for each in now.attributes
        if each.number not in before
    ]
    return statements
