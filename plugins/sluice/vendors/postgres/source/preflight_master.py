"""What a PostgreSQL master, or Sluice's account on it, lacks for a replication."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from sluice import sql_files
from sluice.configuration.model import Replication
from sluice.database.capture import ResourcesNewer
from sluice.database.schema import FreeSequence, SequenceDefinition
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.issue import MASTER, Issue, Severity
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog, own_schema, privileges, sequences
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.issues import (
    by_owner,
    issue,
    listed,
    of_account,
    of_row_security,
    of_schemas,
    schema_issue,
    sequences_issue,
)
from sluice.vendors.postgres.privileges import Account, Relation
from sluice.vendors.postgres.source import owner_code, resources
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.resources import PostgresCapture

_FOR_TABLES = {
    "SELECT": "initial updates and verification read the tables",
    "TRIGGER": "reconcile_tables makes triggers on them",
    "UPDATE": "initial updates that say read: locked lock rows",
}
_RESOURCES = "install_resources makes Sluice's own tables and functions there"


def find(connection: Session, replication: Replication, *, light: bool = False) -> list[Issue]:
    """Everything that is lacking, for `current_user`. Changes nothing. Raises psycopg's errors.

    `light`: only what a replication that runs already cannot do without.
    """
    return list(_Master(connection, replication, light).issues())


class _Master:
    def __init__(self, connection: Session, replication: Replication, light: bool):
        self.connection = connection
        self.replication = replication
        self.light = light
        self.account = privileges.account(connection)
        self.lines: list[Issue] = []
        """Of the configuration's lines that name what is not there."""
        self.tables = self._tables()
        self.relations = privileges.relations(connection, self.tables)
        own = replication.master.schema
        future = {rule.pattern.schema for rule in replication.tables if rule.pattern.wildcard and rule.replicate}
        needs: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for name in {relation.schema for relation in self.relations}:
            needs[name]["USAGE"] = "the tables in it can be named only with it"
        for name in future.intersection(each.name for each in privileges.schemas(connection, future) if each.owner):
            needs[name].setdefault("USAGE", "the tables that it will have can be named only with it")
        needs[own] |= {"USAGE": _RESOURCES, "CREATE": _RESOURCES}
        self.needs = dict(needs)
        self.schemas = {schema.name: schema for schema in privileges.schemas(connection, needs)}

    def issues(self) -> Iterator[Issue]:
        yield from of_account(
            self.account, self.replication.initial.parallel, allow_superuser=self.replication.master.allow_superuser
        )
        yield from self.lines
        own = self.schemas[self.replication.master.schema]
        if own.owner is None and not self.account.may_create:
            yield schema_issue(self.account.role, own, _RESOURCES)
        yield from of_schemas(self.account, self.schemas.values(), self.needs)
        yield from of_tables(self.account, self.relations, self._wanted())
        hidden = [relation.quoted for relation in self.relations if relation.rows_hidden]
        yield from of_row_security(self.account, hidden, "they would be missing on the slaves")
        yield from self._of_owners()
        schema = self._capture.own
        yield from own_schema.issues(self.connection, schema)
        reachable = privileges.logged_in(self.connection) and (own.usage or own.owner is None)
        if reachable and not own_schema.foreign(self.connection, schema):
            yield from self._of_resources()
        if not self.light:
            yield from self._of_options()
            yield from self._of_settings()
            yield from of_sequences(self.connection, self.tables)
            yield from _sequences_unreadable(self.connection, self._free_sequences())
            yield from self._of_the_future()

    def _tables(self) -> list[TableName]:
        existing = catalog.tables(self.connection)
        try:
            return [resolved.table for resolved in self.replication.resolve(existing)]
        except Terminal as wrong:
            self.lines.append(issue("tables of the configuration", str(wrong).rstrip(".")))
        rules = ((table, self.replication.rule(table)) for table in existing)
        return [table for table, rule in rules if rule is not None and rule.replicate]

    def _free_sequences(self) -> list[FreeSequence]:
        schemas = {table.schema for table in self.tables}
        return sequences.free(self.connection, self.replication.prefix, schemas, values=False)

    def _wanted(self) -> dict[str, str]:
        locked = self.replication.initial.read == "locked"
        return {name: why for name, why in _FOR_TABLES.items() if locked or name != "UPDATE"}

    def _of_owners(self) -> Iterator[Issue]:
        """Functions of the tables' owners that loads and verification could be made to run."""
        found: dict[tuple[str, str], list[str]] = {}
        for table, function, owner in owner_code.calls(self.connection, self.tables):
            found.setdefault((function, owner), []).append(table)
        allowed = self.replication.master.allow_owner_code
        for (function, owner), tables in found.items():
            yield issue(
                f"expressions of {listed(tables)} without {function} of {owner}",
                f"{owner_code.WHERE_CALLED} calls it, so that {owner} can make loads "
                f"and verification run it with the rights of {self.account.role}, which reads all replicated tables"
                + (" (allowed by allow_owner_code)" if allowed else ""),
                None,
                Severity.NOTE if allowed else Severity.ERROR,
                remedy=owner_code.REMEDY,
            )

    @property
    def _capture(self) -> PostgresCapture:
        return PostgresCapture(self.connection, self.replication.prefix, self.replication.master.schema)

    def _of_resources(self) -> Iterator[Issue]:
        prefix, schema = self.replication.prefix, self.replication.master.schema
        try:
            installation = self._capture.installed()
        except (ResourcesNewer, own_schema.InstalledElsewhere) as other:
            yield issue("resources of this release", str(other).rstrip("."))
            return
        if installation is None:
            if taken := self._capture.taken():
                error = resources.NamesTaken(prefix, schema, taken)
                yield issue("names for Sluice's own objects", str(error).rstrip("."))
            return
        names = {"prefix": prefix.lower, "schema": quoted(schema)}
        rows = self.connection.execute(sql_files.render("postgres", "preflight_capture", **names)).fetchall()
        groups: dict[str, list[tuple[str, str]]] = {}
        for function, table, owner in rows:
            groups.setdefault(owner, []).append((function, table))
        for owner, pairs in groups.items():
            functions = [function for function, _ in pairs]
            tables = list(dict.fromkeys(table for _, table in pairs))
            yield issue(
                f"EXECUTE on {listed(functions)} for {owner}",
                f"{owner}, who owns {listed(tables)}, cannot make or attach partitions without it",
                f"GRANT EXECUTE ON FUNCTION {', '.join(functions)} TO {owner}",
                Severity.WARNING,
                by=f"{self.account.role} or an administrator",
                remedy="The DAGs install_resources and reconcile_tables, one after the other, grant it as well.",
            )
        if not self.light and not PostgresQueue(self.connection, prefix, schema).has_event_triggers():
            yield issue(
                "event triggers",
                "without them changes of definitions and of partitions are found by comparison, a moment later "
                "(docs/capture.md has the limits)",
                severity=Severity.NOTE,
                remedy="If wanted (docs/security.md, Accounts), a superuser makes them once: "
                f"sed {_filled('prefix', names['prefix'])} "
                f"{_filled('schema', names['schema'])} include/sql/postgres/event_triggers.sql | "
                "psql -1 -v ON_ERROR_STOP=1 DATABASE",
            )

    def _of_options(self) -> Iterator[Issue]:
        throttle = self.replication.initial.throttle
        if (throttle.active_sessions, throttle.replica_lag) != (None, None) and not self.account.sees_others:
            yield issue(
                "membership of pg_read_all_stats",
                "initial.throttle limits active_sessions or replica_lag, which are other accounts' affairs",
                f"GRANT pg_read_all_stats TO {self.account.role}",
            )
        if self.replication.master.cascade:
            for owner in sorted({each.owner for each in self.relations if not each.owned}):
                tables = [each.quoted for each in self.relations if each.owner == owner]
                by_superuser = any(each.owner == owner and each.owned_by_superuser for each in self.relations)
                yield issue(
                    f"the rights of {owner}, who owns {listed(tables)}",
                    "master.cascade passes on what other replications apply: their triggers must fire always, which "
                    "only the owner of a table can say",
                    None if by_superuser else f"GRANT {owner} TO {self.account.role}",
                    remedy="Give the tables to a role that is no superuser first." if by_superuser else "",
                )
        if self.account.encoding == "SQL_ASCII":
            yield issue(
                "an encoding",
                "the database is SQL_ASCII, which takes any bytes: texts that are no UTF-8 cannot be replicated",
                severity=Severity.WARNING,
                remedy="Move the data to a database with the encoding UTF8.",
            )

    def _of_settings(self) -> Iterator[Issue]:
        rows = self.connection.execute(sql_files.render("postgres", "preflight_settings")).fetchall()
        for name, value, set_in, statement in rows:
            yield issue(
                f"{set_in} without the setting {name} = {value}",
                "a statement of many rows keeps them twice more until they are captured, in temporary files beyond "
                "work_mem: it may fail although it would not without the capture"
                if name == "temp_file_limit"
                else "sessions with it fire no triggers: what they change is not captured, and the slaves differ",
                statement,
                Severity.WARNING,
                remedy="" if statement else "Remove it from the server's command line or environment.",
            )

    def _of_the_future(self) -> Iterator[Issue]:
        wildcards = [rule for rule in self.replication.tables if rule.pattern.wildcard and rule.replicate]
        partitioned = {relation.table for relation in self.relations if relation.partitioned}
        owners = {
            (relation.schema, relation.owner)
            for relation in self.relations
            if relation.table in partitioned or any(rule.pattern.matches(relation.table) for rule in wildcards)
        }
        creators = [quoted(name) for name in self.replication.master.creators]
        owners |= {(rule.pattern.schema, creator) for rule in wildcards for creator in creators}
        for each in privileges.future_privileges(self.connection, owners):
            start = f"ALTER DEFAULT PRIVILEGES FOR ROLE {each.owner} IN SCHEMA {each.quoted} GRANT"
            statements = []
            if each.tables:
                statements.append(f"{start} SELECT, TRIGGER ON TABLES TO {self.account.role}")
            if each.sequences:
                statements.append(f"{start} SELECT ON SEQUENCES TO {self.account.role}")
            what = " and ".join(
                word for word, lacking in (("tables", each.tables), ("sequences", each.sequences)) if lacking
            )
            yield issue(
                f"default privileges on {what} that {each.owner} will make in the schema {each.quoted}",
                "new tables and partitions there could not be read or given triggers, and reconcile_tables would fail",
                ";\n".join(statements),
                Severity.WARNING,
                by=by_owner(each.owner),
            )


def of_tables(account: Account, relations: Sequence[Relation], purposes: dict[str, str]) -> Iterator[Issue]:
    """Privileges on tables and partitions, tables of one owner with the same issue together.

    `purposes`: privilege → what needs it.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for relation in relations:
        missing = tuple(privilege for privilege in purposes if privilege not in relation.privileges)
        if missing:
            groups.setdefault((relation.owner, missing), []).append(relation.quoted)
    for (owner, missing), tables in groups.items():
        yield issue(
            f"{', '.join(missing)} on {listed(tables)}",
            " and ".join(purposes[privilege] for privilege in missing),
            f"GRANT {', '.join(missing)} ON TABLE {', '.join(tables)} TO {account.role}",
            by=by_owner(owner),
        )


def of_sequences(connection: Session, tables: Sequence[TableName]) -> list[Issue]:
    """Sequences behind columns of `tables` that the account may not read. Raises psycopg's errors."""
    return _sequences_unreadable(connection, sequences.read(connection, tables, values=False))


def _sequences_unreadable(connection: Session, sequences: Iterable[SequenceDefinition | FreeSequence]) -> list[Issue]:
    unreadable = [each for each in sequences if not each.readable]
    role = privileges.role(connection) if unreadable else ""
    why = "they cannot be set on the slaves, where the first insert after a failover would draw a number that is in use"
    return [issue.at(MASTER, "") for issue in sequences_issue(unreadable, "SELECT", why, role)]


def _filled(placeholder: str, value: str) -> str:
    """The option of sed that puts `value` into an SQL file, for a shell."""
    escaped = re.sub(r"([/&\\])", r"\\\1", value)
    return "-e " + shlex.quote(f"s/${{{placeholder}}}/{escaped}/g")
