"""Types and collations of a database's own that tables need, and making them on a PostgreSQL slave."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sluice import sql_files
from sluice.database.schema import CollationDefinition, TypeDefinition
from sluice.database.session import Session
from sluice.model.names import TableName, split_qualified
from sluice.model.table_definition import EnumType
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.expressions import RESTART_UPDATE, Examiner, ExpressionRefused
from sluice.vendors.postgres.target import enums

_KINDS = {"e": "enum", "d": "domain", "c": "composite type", "r": "range", "b": "base type", "t": "row type of a table"}


def quoted_name(wanted: TypeDefinition) -> str:
    """Its qualified name, for statements."""
    return quoted(wanted.schema, wanted.name)


def create_statement(wanted: TypeDefinition) -> str:
    """The statement that creates it."""
    return f"CREATE {'DOMAIN' if wanted.kind == 'd' else 'TYPE'} {quoted_name(wanted)} {wanted.ddl}"


def collation_statement(wanted: CollationDefinition) -> str:
    """The statement that creates it if it is missing."""
    if wanted.provider == "c":
        options = [f"provider = libc, lc_collate = {literal(wanted.collate)}, lc_ctype = {literal(wanted.ctype)}"]
    else:
        options = [f"provider = {'icu' if wanted.provider == 'i' else 'builtin'}, locale = {literal(wanted.locale)}"]
    if not wanted.deterministic:
        options.append("deterministic = false")
    if wanted.rules:
        options.append(f"rules = {literal(wanted.rules)}")
    return f"CREATE COLLATION IF NOT EXISTS {quoted(wanted.schema, wanted.name)} ({', '.join(options)})"


def needed(connection: Session, tables: Sequence[TableName]) -> list[TypeDefinition]:
    """The types that columns of `tables` need, each after the types that it consists of."""
    names = connection.execute(sql_files.render("postgres", "types_needed"), catalog.pairs(tables)).fetchall()
    definitions = defined(connection, names)
    return [definitions[schema, name] for schema, name in names]


def defined(connection: Session, names: Sequence[tuple[object, ...]]) -> dict[tuple[str, str], TypeDefinition]:
    """The definitions of those types (schema, name) that exist."""
    rows = connection.execute(
        sql_files.render("postgres", "types_defined"),
        {"schemas": [schema for schema, _ in names], "names": [name for _, name in names]},
    ).fetchall()
    return {
        (schema, name): TypeDefinition(
            schema, name, kind, extension, where, None if labels is None else tuple(labels), comparable, ddl
        )
        for schema, name, kind, extension, where, labels, comparable, ddl in rows
    }


def collations(connection: Session, tables: Sequence[TableName]) -> list[CollationDefinition]:
    """The collations of the database's own that columns of `tables` use."""
    rows = connection.execute(sql_files.render("postgres", "collations_needed"), catalog.pairs(tables)).fetchall()
    return [CollationDefinition(*row) for row in rows]


@dataclass(frozen=True)
class TypeGap:
    """Why the slave cannot have a type of the master."""

    sentence: str
    statement: str | None = None
    """The SQL that fixes it on the slave, if there is any."""


def differences(connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
    """Why the slave cannot have `types`, one sentence each; missing types that can be created are no difference."""
    return [
        f"{gap.sentence}; run there: {' '.join(gap.statement.splitlines())}" if gap.statement else gap.sentence
        for gap in gaps(connection, types)
    ]


def gaps(connection: Session, types: Sequence[TypeDefinition]) -> Iterator[TypeGap]:
    """The same, with the remedies."""
    existing = defined(connection, [(wanted.schema, wanted.name) for wanted in types])
    available = {name for (name,) in connection.execute("SELECT name::text FROM pg_available_extensions").fetchall()}
    targets = dict(
        connection.execute(
            "SELECT e.extname::text, n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
        ).fetchall()
    )
    for wanted in types:
        own, name = existing.get((wanted.schema, wanted.name)), quoted_name(wanted)
        kind = _KINDS.get(wanted.kind, wanted.kind)
        if own is None:
            if wanted.extension:
                schema = wanted.extension_schema or wanted.schema
                if wanted.extension in targets and targets[wanted.extension] != schema:
                    yield TypeGap(
                        f"type {name} belongs to extension {wanted.extension}, which is in schema "
                        f"{targets[wanted.extension]} on the slave",
                        f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};\n"
                        f"ALTER EXTENSION {quoted(wanted.extension)} SET SCHEMA {quoted(schema)}",
                    )
                elif wanted.extension in targets:
                    yield TypeGap(
                        f"type {name} is not in the slave's version of extension {wanted.extension}",
                        f"ALTER EXTENSION {quoted(wanted.extension)} UPDATE",
                    )
                elif wanted.extension not in available:
                    yield TypeGap(
                        f"type {name} belongs to extension {wanted.extension}, which is not installed on "
                        "the slave's machine: install its package there"
                    )
            elif wanted.ddl is None:
                yield TypeGap(f"type {name} ({kind}) cannot be made by Sluice: create it on the slave")
        elif own.kind != wanted.kind or own.extension != wanted.extension:
            yield TypeGap(f"type {name} is another kind of type on the slave than the master's {kind}")
        elif wanted.labels is not None:
            added = _labels_added(wanted, own)
            if added and not _may_alter(connection, own):
                missing = ", ".join(repr(label) for label in wanted.labels if label not in (own.labels or ()))
                sentence = f"enum {name} lacks on the slave: {missing}; this account may not add them"
                yield TypeGap(sentence, ";\n".join(added))
        elif own.comparable != wanted.comparable:
            yield TypeGap(f"{kind} {name} is of {own.comparable} on the slave, of {wanted.comparable} here")


def extensions_of_enums(connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
    """The statements that add the labels that enums of the slave lack, each in its place."""
    existing = defined(connection, [(wanted.schema, wanted.name) for wanted in types if wanted.labels is not None])
    pairs = ((wanted, existing.get((wanted.schema, wanted.name))) for wanted in types)
    return [statement for wanted, own in pairs if own is not None for statement in _labels_added(wanted, own)]


def extend_enums(connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
    """Adds the labels that enums of the slave lack, over a session in autocommit: a label can be used only after the
    transaction that adds it. Returns the statements."""
    statements = extensions_of_enums(connection, types)
    for statement in statements:
        connection.execute(statement.encode())
    return statements


def _labels_added(wanted: TypeDefinition, own: TypeDefinition) -> list[str]:
    if wanted.labels is None or own.labels is None:
        return []
    enum = EnumType(wanted.schema, wanted.name, tuple(enumerate(wanted.labels)))
    names = enums.Names()
    names.add(enum)
    return enums.additions(enum, own.labels, names)


def _may_alter(connection: Session, own: TypeDefinition) -> bool:
    """Whether the account owns the slave's type."""
    row = connection.execute(
        "SELECT pg_catalog.pg_has_role(typowner, 'USAGE') FROM pg_catalog.pg_type WHERE oid = %s::regtype",
        [quoted_name(own)],
    ).fetchone()
    return row == (True,)


def index_extensions(connection: Session, tables: Sequence[TableName]) -> dict[str, str]:
    """The extensions that indexes of `tables` need, each with its schema."""
    rows = connection.execute(sql_files.render("postgres", "index_extensions"), catalog.pairs(tables)).fetchall()
    return dict(rows)


def extensions_absent(connection: Session, names: Iterable[str]) -> dict[str, bool]:
    """The extensions of `names` that this database lacks, and whether their packages are installed on its machine."""
    rows = connection.execute(
        "SELECT n, EXISTS (SELECT FROM pg_available_extensions a WHERE a.name = n) FROM unnest(%s::text[]) AS u (n) "
        "WHERE NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = n) ORDER BY n",
        [list(names)],
    ).fetchall()
    return dict(rows)


def needing_superuser(connection: Session, extensions: Iterable[str]) -> set[str]:
    """The extensions of `extensions` that this database lacks, that are available, and that only a superuser may
    create."""
    rows = connection.execute(
        "SELECT DISTINCT v.name::text FROM pg_available_extension_versions v "
        "JOIN pg_available_extensions e ON e.name = v.name AND e.default_version = v.version "
        "WHERE v.name = ANY (%s) AND NOT v.trusted AND e.installed_version IS NULL",
        [list(extensions)],
    ).fetchall()
    return {name for (name,) in rows}


def missing_collations(connection: Session, used: Sequence[str], own: Sequence[CollationDefinition]) -> list[str]:
    """Which of the collations `used` (qualified and quoted) the slave lacks and cannot create.

    `own`: user-defined collations of the master, which can be created if the server knows their provider.
    """
    providers = {(definition.schema, definition.name): definition.provider for definition in own}
    names = list(dict.fromkeys(used))
    rows = connection.execute(
        sql_files.render("postgres", "collations_lacking"),
        {"names": names, "providers": [providers.get(_parts(name)) for name in names]},
    ).fetchall()
    return [name for (name,) in rows]


def create(
    connection: Session,
    types: Sequence[TypeDefinition],
    collations: Sequence[CollationDefinition] = (),
    *,
    trusted: bool = False,
) -> list[str]:
    """Creates what is missing, in the caller's transaction. Returns the created names.

    `trusted`: with any checks and defaults of domains. Raises `ExpressionRefused`; the transaction is lost then.
    """
    existing = defined(connection, [(wanted.schema, wanted.name) for wanted in types])
    absent = [wanted for wanted in types if (wanted.schema, wanted.name) not in existing]
    # A person who runs what is refused needs all that is rolled back with it.
    ran = [
        create_schema(connection, name) for name in dict.fromkeys(one.extension_schema or one.schema for one in absent)
    ]
    for collation in collations:
        ran += [create_schema(connection, collation.schema), collation_statement(collation)]
        connection.execute(ran[-1].encode())
    extensions = dict.fromkeys((wanted.extension, wanted.extension_schema) for wanted in absent if wanted.extension)
    for extension, where in extensions:
        assert extension is not None and where is not None
        ran.append(f"CREATE EXTENSION IF NOT EXISTS {quoted(extension)} SCHEMA {quoted(where)}")
        connection.execute(ran[-1].encode())
    created = [f"extension {extension}" for extension, _ in extensions]
    for wanted in absent:
        if not wanted.extension:
            name = quoted_name(wanted)
            ran.append(create_statement(wanted))
            connection.execute(ran[-1].encode())
            # Nothing of it has run: no value is of this type yet.
            reason = Examiner(connection, trusted=trusted).types([name])
            if reason:
                raise ExpressionRefused(f"type {name}", "; ".join(filter(None, ran)), reason, again=RESTART_UPDATE)
            created.append(f"type {name}")
    return created


def create_schema(connection: Session, schema: str) -> str:
    """Makes a schema if it is absent; needs no privilege where it is there. The statement that ran, or empty."""
    row = connection.execute("SELECT to_regnamespace(%s) IS NULL", [quoted(schema)]).fetchone()
    if not (row and row[0]):
        return ""
    statement = f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}"
    connection.execute(statement.encode())
    return statement


def _parts(name: str) -> tuple[str, str]:
    """Schema and name of a qualified name, quoted or not."""
    schema, collation = split_qualified(name)
    return schema, collation
