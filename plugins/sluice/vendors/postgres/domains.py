"""Checks of domains, which a PostgreSQL slave does not follow."""

from collections.abc import Sequence

from sluice import sql_files
from sluice.database.schema import DomainCheck
from sluice.database.session import Session
from sluice.model.lack import Lack, Severity
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import quoted


def checks(connection: Session, tables: Sequence[TableName]) -> list[DomainCheck]:
    """Those of the domains that columns of `tables` need. Raises psycopg's errors."""
    names = connection.execute(sql_files.render("postgres", "types_needed"), catalog.pairs(tables)).fetchall()
    rows = connection.execute(
        sql_files.render("postgres", "domain_checks"),
        {"schemas": [schema for schema, _ in names], "names": [name for _, name in names]},
    ).fetchall()
    return [DomainCheck(*row) for row in rows]


def lacking(master: Sequence[DomainCheck], slave: Sequence[DomainCheck]) -> list[Lack]:
    """Checks that only one side has, or that the sides define differently."""
    on_slave = {(own.schema, own.domain, own.name): own for own in slave}
    wanted = {(one.schema, one.domain, one.name): one for one in master}
    lacks = []
    for place in sorted(on_slave.keys() | wanted.keys()):
        own, one = on_slave.get(place), wanted.get(place)
        if own and one and own.definition == one.definition:
            continue
        schema, domain, name = place
        alter, constraint = f"ALTER DOMAIN {quoted(schema, domain)}", f"CONSTRAINT {quoted(name)}"
        statements = [
            *([f"{alter} DROP {constraint}"] if own else []),
            *([f"{alter} ADD {constraint} {one.definition}"] if one else []),
        ]
        why = "the master has it" if one and not own else "the master has another" if one else "the master has none"
        lacks.append(
            Lack("", f"check {name} of domain {quoted(schema, domain)}", why, ";\n".join(statements), Severity.WARNING)
        )
    return lacks
