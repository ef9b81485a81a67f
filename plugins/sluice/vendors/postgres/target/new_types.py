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
    """The definition without composite types that the slave has under any name that they have in `items`: it is renamed
    at its place among them."""
    numbers = {one.number for one in definition.composites}
    names: dict[int, dict[tuple[str, str], CompositeType]] = {}
    for each in (known for item in items for known in (item.former, item.defined) if known is not None):
        for one in each.composites:
            if one.number in numbers:
                names.setdefault(one.number, {})[one.schema, one.name] = one
    there = {
        number
        for number, known in names.items()
        if any(attributes(connection, one) is not None for one in known.values())
    }
    return replace(definition, composites=tuple(one for one in definition.composites if one.number not in there))


def follow_names(connection: Session, old: TableDefinition, new: TableDefinition, run: Callable[[str], None]) -> None:
    """Renames composite types by `run`."""
    for was, wanted in _both(old, new):
        if attributes(connection, wanted) is None and attributes(connection, was) is not None:
            for statement in renames(was, wanted):
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


def renames(was: CompositeType, now: CompositeType) -> list[str]:
    """The statements that give the type its new name and schema."""
    statements = []
    if was.name != now.name:
        statements.append(f"ALTER TYPE {quoted(was.schema, was.name)} RENAME TO {quoted(now.name)}")
    if was.schema != now.schema:
        statements.append(f"ALTER TYPE {quoted(was.schema, now.name)} SET SCHEMA {quoted(now.schema)}")
    return statements


def changes(was: CompositeType, now: CompositeType, present: Sequence[str] | None) -> list[str]:
    """The statements that give the slave's type, whose attributes are `present`, those of `now`; none where another
    table's item, for the same type, has done so.

    Raises `AttributesDiffer` where the slave's are neither the former nor the present ones.
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
