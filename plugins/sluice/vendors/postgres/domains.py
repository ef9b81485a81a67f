"""Comments of tables and columns, and checks of domains, which a PostgreSQL slave does not follow."""

from collections.abc import Sequence

from sluice import sql_files
from sluice.database.schema import Comment, DomainCheck
from sluice.database.session import Session
from sluice.model.issue import Issue, Severity
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import literal, quoted


def checks(connection: Session, tables: Sequence[TableName]) -> list[DomainCheck]:
    """Those of the domains that columns of `tables` need. Raises psycopg's errors."""
    names = connection.execute(sql_files.render("postgres", "types_needed"), catalog.pairs(tables)).fetchall()
    rows = connection.execute(
        sql_files.render("postgres", "domain_checks"),
        {"schemas": [schema for schema, _ in names], "names": [name for _, name in names]},
    ).fetchall()
    return [DomainCheck(*row) for row in rows]


def lacking(master: Sequence[DomainCheck], slave: Sequence[DomainCheck]) -> list[Issue]:
    """Checks that only one side has, or that the sides define differently."""
    on_slave = {(own.schema, own.domain, own.name): own for own in slave}
    of_master = {(one.schema, one.domain, one.name): one for one in master}
    issues = []
    for check in sorted(on_slave.keys() | of_master.keys()):
        own, one = on_slave.get(check), of_master.get(check)
        if own and one and own.definition == one.definition:
            continue
        schema, domain, name = check
        statements = [
            *([dropping(schema, domain, name)] if own else []),
            *([adding(one)] if one else []),
        ]
        why = "the master has it" if one and not own else "the master has another" if one else "the master has none"
        what = f"check {name}" if name else "NOT NULL"
        issues.append(
            Issue("", f"{what} of domain {quoted(schema, domain)}", why, ";\n".join(statements), Severity.WARNING)
        )
    return issues


def adding(check: DomainCheck) -> str:
    """The statement that gives a domain a check."""
    alter = f"ALTER DOMAIN {quoted(check.schema, check.domain)}"
    return (
        f"{alter} SET NOT NULL" if check.not_null else f"{alter} ADD CONSTRAINT {quoted(check.name)} {check.definition}"
    )


def dropping(schema: str, domain: str, name: str, if_exists: str = "") -> str:
    """The statement that takes it; `name`: empty for NOT NULL. `if_exists`: `IF EXISTS `, if wanted."""
    alter = f"ALTER DOMAIN {quoted(schema, domain)}"
    return f"{alter} DROP CONSTRAINT {if_exists}{quoted(name)}" if name else f"{alter} DROP NOT NULL"


# Comments on tables and their columns.


def comments(connection: Session, tables: Sequence[TableName]) -> list[Comment]:
    """Raises psycopg's errors."""
    rows = connection.execute(sql_files.render("postgres", "table_comments"), catalog.pairs(tables)).fetchall()
    return [Comment(TableName(schema, name), column, text) for schema, name, column, text in rows]


def comment_statement(table: TableName, column: str, text: str | None) -> str:
    """Gives the table, or its column, this comment; None: it has none any more."""
    name = quoted(table.schema, table.name)
    subject = f"COLUMN {name}.{quoted(column)}" if column else f"TABLE {name}"
    return f"COMMENT ON {subject} IS {'NULL' if text is None else literal(text)}"
