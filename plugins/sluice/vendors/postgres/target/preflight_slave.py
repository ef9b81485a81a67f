"""What a PostgreSQL slave, or Sluice's account on it, lacks for a replication."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence

from sluice import sql_files
from sluice.configuration.model import Replication, SlaveConfig
from sluice.control.checkpoint import CheckpointStore
from sluice.database.preflight import Requirements
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.compatibility import differences
from sluice.model.issue import ADMINISTRATOR, Issue, Severity
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres import catalog, own_schema, privileges, sequences, sessions, types
from sluice.vendors.postgres.column_types import holds
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
    silence_issue,
)
from sluice.vendors.postgres.own_schema import OwnSchema
from sluice.vendors.postgres.target import tables

_FOR_ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_OWN = "Sluice keeps CHECKPOINT, BLOCKS and REJECTS there"
_NAMED = "the tables in it can be named only with it"
_MADE = "tables, indexes and types are made there"


def requirements(master: Session, replication: Replication, covers: Callable[[TableName], bool]) -> Requirements:
    """What the master's tables that `covers` chooses ask of a slave, from its catalogue. Raises psycopg's errors."""
    try:
        chosen = [each.table for each in replication.resolve(catalog.tables(master)) if covers(each.table)]
    except Terminal:
        chosen = []  # said of the master
    return Requirements(
        tables.define(master, chosen),
        types.needed(master, chosen),
        types.collations(master, chosen),
        privileges.account(master).encoding,
        sum(each.bytes for each in catalog.estimates(master, chosen).values()),
        types.index_extensions(master, chosen),
        _large_objects(master, chosen),
    )


def _large_objects(master: Session, chosen: Sequence[TableName]) -> dict[TableName, list[str]]:
    statement = sql_files.render("postgres", "large_object_columns")
    found: dict[TableName, list[str]] = {}
    for schema, name, column in master.execute(statement, catalog.pairs(chosen)).fetchall():
        found.setdefault(TableName(schema, name), []).append(column)
    return found


def find(
    connection: Session,
    replication: Replication,
    slave: SlaveConfig,
    requirements: Requirements | None,
    *,
    part: bool = False,
    light: bool = False,
) -> list[Issue]:
    """Everything that is lacking, for `current_user`. Changes nothing. Raises psycopg's errors.

    `requirements`: None if the master cannot be asked. `part`: only some of its tables are to be loaded.
    `light`: only what a replication that runs already cannot do without.
    """
    return list(_Slave(connection, replication, slave, requirements, part, light).issues())


class _Slave:
    def __init__(
        self,
        connection: Session,
        replication: Replication,
        slave: SlaveConfig,
        requirements: Requirements | None,
        part: bool,
        light: bool,
    ):
        self.connection = connection
        self.replication = replication
        self.slave = slave
        self.requirements = requirements or Requirements([], [], [], "", 0)
        self.part = part
        self.light = light
        self.account = privileges.account(connection)
        self.tables = [definition.table for definition in self.requirements.definitions]
        self.relations = [each for each in privileges.relations(connection, self.tables) if not each.partition]
        self.existing: dict[TableName, TableShape] = catalog.shapes(connection, self.tables)
        self.existing_types = types.defined(connection, [(each.schema, each.name) for each in self.requirements.types])
        self.needs = self._needs()
        self.schemas = {schema.name: schema for schema in privileges.schemas(connection, self.needs)}

    def issues(self) -> Iterator[Issue]:
        yield from of_account(
            self.account, self.replication.initial.parallel, allow_superuser=self.slave.allow_superuser
        )
        if not self.account.may_make_temporary:
            yield issue(
                f"TEMPORARY on the database {self.account.database}",
                "the apply joins large windows with the tables by way of temporary tables",
                f"GRANT TEMPORARY ON DATABASE {self.account.database} TO {self.account.role}",
                by=f"the owner of the database or {ADMINISTRATOR}",
            )
        own = self.schemas[self.slave.schema]
        if own.owner is None and not self.account.may_create:
            yield schema_issue(self.account.role, own, _OWN)
        yield from self._of_creation()
        yield from of_schemas(self.account, self.schemas.values(), self.needs)
        schema = OwnSchema.of_slave(self.replication.prefix, self.slave.schema, self.slave.name)
        yield from own_schema.issues(self.connection, schema)
        logged_in = privileges.logged_in(self.connection)
        if logged_in:
            yield from self._of_own_schema(schema)
        yield from self._of_captures()
        yield from self._of_tables()
        if not sessions.may_silence(self.connection):
            keys = tables.foreign_keys(self.connection, list(self.existing)) if self.existing and not self.light else []
            yield silence_issue(self.account, [str(key) for key in keys if key.child_loaded])
        if not self.light:
            yield from self._of_encoding()
            yield from self._of_types()
            yield from self._of_index_extensions()
            if not self._loading(logged_in and own.usage):
                yield from self._of_shapes()
            strange = {each.table for each in self.relations if not each.owned}
            yield from of_sequences(self.connection, list(self.existing), strange)
            yield from self._of_disk()

    def _of_own_schema(self, schema: OwnSchema) -> Iterator[Issue]:
        if schemas := own_schema.elsewhere(self.connection, schema):
            yield issue(
                "the schema of CHECKPOINT",
                own_schema.elsewhere_reason(schema, schemas),
                remedy=own_schema.elsewhere_remedy(schema, schemas),
            )

    def _needs(self) -> dict[str, dict[str, str]]:
        """Schema → privilege → what needs it."""
        needs: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for table in self.tables:
            needs[table.schema] |= {"USAGE": _NAMED, "CREATE": _MADE}
        wildcards = [rule for rule in self.replication.tables if rule.pattern.wildcard and rule.replicate]
        future = {rule.pattern.schema for rule in wildcards}
        for name in future.intersection(
            each.name for each in privileges.schemas(self.connection, future) if each.owner
        ):
            needs[name] |= {"USAGE": _NAMED, "CREATE": _MADE}
        if not self.light:
            for definition in self.requirements.definitions:
                for sequence in definition.sequences:
                    if definition.table not in self.existing and not sequence.identity:
                        needs[sequence.schema] |= {"USAGE": _MADE, "CREATE": _MADE}
            for type_ in self.requirements.types:
                needs[type_.schema].setdefault("USAGE", "types in it are used by the tables")
                if (type_.schema, type_.name) not in self.existing_types and not type_.extension:
                    needs[type_.schema]["CREATE"] = _MADE
            for collation in self.requirements.collations:
                needs[collation.schema] |= {"USAGE": _MADE, "CREATE": _MADE}
        needs[self.slave.schema] |= {"USAGE": _OWN, "CREATE": _OWN}
        return dict(needs)

    def _of_creation(self) -> Iterator[Issue]:
        """Schemas and extensions that Sluice makes if the account may."""
        extensions = {
            each.extension: each.extension_schema
            for each in self.requirements.types
            if each.extension and (each.schema, each.name) not in self.existing_types
        }
        untrusted = set() if self.account.superuser else types.needing_superuser(self.connection, list(extensions))
        absent = [each for each in self.schemas.values() if each.owner is None and each.name != self.slave.schema]
        for extension in sorted(untrusted):
            schema = quoted(str(extensions[extension]))
            yield issue(
                f"the extension {extension}",
                "columns have types of it, and PostgreSQL lets only a superuser make it",
                f"CREATE SCHEMA IF NOT EXISTS {schema};\nCREATE EXTENSION {quoted(extension)} SCHEMA {schema}",
            )
        trusted = sorted(set(extensions) - untrusted)
        creatable = [f"schema {each.quoted}" for each in absent] + [f"extension {name}" for name in trusted]
        if creatable and not self.account.may_create:
            yield issue(
                f"CREATE on the database {self.account.database}",
                f"these are to be made there: {listed(creatable)}",
                f"GRANT CREATE ON DATABASE {self.account.database} TO {self.account.role}",
                by=f"the owner of the database or {ADMINISTRATOR}",
            )

    def _of_index_extensions(self) -> Iterator[Issue]:
        """Extensions that only indexes need: nothing else makes them."""
        extensions = {each.extension for each in self.requirements.types}
        needed = {name: schema for name, schema in self.requirements.index_extensions.items() if name not in extensions}
        for extension, available in types.extensions_absent(self.connection, needed).items():
            schema = quoted(needed[extension])
            yield issue(
                f"the extension {extension}",
                "indexes and exclusion constraints of the master's need it, and are left out here without it",
                f"CREATE SCHEMA IF NOT EXISTS {schema};\nCREATE EXTENSION {quoted(extension)} SCHEMA {schema}"
                if available
                else None,
                Severity.WARNING,
                remedy="" if available else "Install its package on the slave's machine.",
            )

    def _of_captures(self) -> Iterator[Issue]:
        """Captures in the slave's own database that would queue what is applied to it."""
        for items, account in privileges.captures(self.connection):
            yield issue(
                f"membership in {account}",
                f"otherwise {items} queues what is loaded and applied here as its own changes, which come back "
                "where the replication goes both ways",
                f"GRANT {account} TO {self.account.role}",
                Severity.WARNING,
            )

    def _of_tables(self) -> Iterator[Issue]:
        role = self.account.role
        groups: dict[tuple[str, tuple[str, ...], Severity], list[str]] = {}
        for each in self.relations:
            missing = tuple(privilege for privilege in _FOR_ROWS if privilege not in each.privileges)
            if missing:
                groups.setdefault((each.owner, missing, Severity.ERROR), []).append(each.quoted)
            if "TRUNCATE" not in each.privileges:
                groups.setdefault((each.owner, ("TRUNCATE",), Severity.WARNING), []).append(each.quoted)
        for (owner, missing, severity), names in groups.items():
            why = "their rows are loaded, compared and changed"
            if severity is Severity.WARNING:
                why = "a TRUNCATE on the master would stop the apply"
            yield issue(
                f"{', '.join(missing)} on {listed(names)}",
                why,
                f"GRANT {', '.join(missing)} ON TABLE {', '.join(names)} TO {role}",
                severity,
                by=by_owner(owner),
            )
        hidden = [each.quoted for each in self.relations if each.rows_hidden]
        yield from of_row_security(self.account, hidden, "they could not be compared or changed")
        strange = [each for each in self.relations if not each.owned]
        if strange:
            names = [each.quoted for each in strange]
            statements = [f"ALTER TABLE {name} OWNER TO {role}" for name in names]
            if self.light and not any(each.owned_by_superuser for each in strange):
                # Applications may rely on who owns them: they may write here, or will.
                statements = [f"GRANT {owner} TO {role}" for owner in sorted({each.owner for each in strange})]
            yield issue(
                f"the ownership of {listed(names)}",
                "only the owner can follow ALTER TABLE, make indexes and constraints, and gather statistics: changes "
                "of the definition on the master would stop the apply",
                ";\n".join(statements),
                Severity.WARNING,
            )
        for each in self.relations:
            if each.old_values_wanted:
                yield issue(
                    f"a replica identity of {each.quoted}",
                    "a publication of the slave's has it, and PostgreSQL changes no rows of such a table without",
                    f"ALTER TABLE {each.quoted} REPLICA IDENTITY FULL",
                    by=by_owner(each.owner),
                )

    def _of_encoding(self) -> Iterator[Issue]:
        own, sent = self.account.encoding, self.requirements.encoding
        if not sent or own in (sent, "UTF8"):
            return
        yield issue(
            "an encoding that holds the master's texts",
            f"the master's is {sent}, the slave's {own}: characters that it lacks cannot be stored",
            severity=Severity.WARNING if own == "SQL_ASCII" else Severity.ERROR,
            remedy="Make the slave's database again: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.",
        )

    def _of_types(self) -> Iterator[Issue]:
        what = "types as on the master"
        for gap in types.gaps(self.connection, self.requirements.types):
            yield issue(
                what,
                gap.sentence,
                gap.statement,
                by=f"the owner of the type or {ADMINISTRATOR}",
                remedy="" if gap.statement else "Fix it on the slave; types that are absent are made.",
            )
        absent = [each for each in self.requirements.definitions if each.table not in self.existing]
        used = [column.collation for each in absent for column in each.shape.columns if column.collation]
        for name in types.missing_collations(self.connection, used, self.requirements.collations):
            yield issue(
                f"the collation {name}",
                "the slave's server has no such collations (built without ICU?)",
                remedy="Make the tables that use it yourself there, with another collation.",
            )

    def _loading(self, readable: bool) -> bool:
        """Whether an initial update is under way: it checks the tables that it made."""
        if not readable:
            return False
        store = CheckpointStore(self.connection, self.replication.prefix, self.slave.schema, self.slave.name)
        try:
            kept = store.read()
        except (own_schema.NotOwned, own_schema.InstalledElsewhere):  # said already
            return False
        return kept is not None and kept.state in (SlaveState.INITIAL, SlaveState.TRANSITION)

    def _of_shapes(self) -> Iterator[Issue]:
        for table, other in tables.not_tables(self.connection, self.tables).items():
            yield issue(
                f"the name {table}",
                f"it is {other} on the slave, and a table of the master's",
                remedy="Drop or rename it there.",
            )
        if self.existing and self.slave.existing_tables == "refuse" and not self.part:
            yield issue(
                f"a slave without {listed([str(table) for table in self.existing])}",
                "its configuration says existing_tables: refuse",
                remedy="Drop these tables, or say empty or keep.",
            )
        # A part says so itself before it begins: it makes tables again that are worth nothing.
        for definition in () if self.part else self.requirements.definitions:
            if definition.table in self.existing:
                for sentence in differences(definition.shape, self.existing[definition.table], holds):
                    yield issue(
                        "a table like the master's",
                        sentence,
                        remedy="Fix it on the slave, or drop the table there: it is made again.",
                    )

    def _of_disk(self) -> Iterator[Issue]:
        if self.requirements.bytes >= 1_000_000_000:
            yield issue(
                f"{self.requirements.bytes / 1e9:.1f} GB on the disk, and as much as their indexes take",
                "the tables take that on the master; PostgreSQL does not say how much is free here",
                severity=Severity.NOTE,
                remedy="Look on the slave's machine.",
            )


def of_sequences(connection: Session, tables: Sequence[TableName], strange: Collection[TableName] = ()) -> list[Issue]:
    """Sequences behind columns of `tables` that the account may not set. Raises psycopg's errors.

    Not those that change owner together with `strange` tables.
    """
    fixed = [
        each
        for each in sequences.read(connection, tables, values=False)
        if not (each.readable and each.settable) and not (each.owned and each.table in strange)
    ]
    role = privileges.role(connection) if fixed else ""
    why = (
        "they cannot be set past the master's values, and the first insert after a failover would draw a number that "
        "is in use"
    )
    return [issue.at("slave", "") for issue in sequences_issue(fixed, "SELECT, UPDATE", why, role)]
