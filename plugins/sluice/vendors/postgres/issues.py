"""Makes `Issue`s of facts of the catalog about the account or the server of either side. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sluice.counted import counted
from sluice.counted import listed as shortened
from sluice.database.schema import FreeSequence, SequenceDefinition
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import ADMINISTRATOR, Issue, Severity
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.privileges import OLDEST, Account, Foreign, Schema
from sluice.vendors.postgres.sequences import quoted_name
from sluice.vendors.postgres.sessions import silence_statement

BESIDE_LOADERS = 6
"""The connections of a replication on each server, without those of the loaders of an initial update."""
CLOCKS_APART = 2.0
"""Seconds by which clocks may differ."""
_OWNABLE = frozenset({"TABLE", "VIEW", "SEQUENCE", "ROUTINE"})
"""The kinds of objects that Sluice creates."""
SHOWN = 8
"""The most names that a sentence lists."""


def issue(
    what: str,
    why: str,
    statement: str | None = None,
    severity: Severity = Severity.ERROR,
    *,
    by: str = ADMINISTRATOR,
    remedy: str = "",
) -> Issue:
    """An issue without its side."""
    return Issue("", what, why, statement, severity, by, remedy)


def listed(names: Sequence[str]) -> str:
    """`a, b, c`, or `a, b and 40 more`."""
    return shortened(names, SHOWN)


def by_owner(owner: str) -> str:
    """Who may grant privileges on objects of `owner`."""
    return f"the owner {owner} or {ADMINISTRATOR}"


def of_account(account: Account, loaders: int, *, allow_superuser: bool) -> Iterator[Issue]:
    """What every account lacks on either side.

    `loaders`: blocks that an initial update handles at the same time. `allow_superuser`: as configured.
    """
    yield from _of_server(account)
    yield from _of_rights(account)
    yield from _of_limits(account, loaders)
    if account.superuser or account.powers:
        yield superuser_issue(account, allow_superuser)


def _of_server(account: Account) -> Iterator[Issue]:
    if account.version < OLDEST:
        yield issue(
            f"PostgreSQL {OLDEST // 10000} or later",
            f"the server is PostgreSQL {account.version // 10000}",
            remedy="Upgrade the server.",
        )
    if account.standby:
        yield issue(
            "a server that can be written to",
            "it is in recovery: a standby",
            remedy="Let the Airflow connection name the primary server, or promote this one.",
        )
    if account.session_shared:
        yield issue(
            "a dedicated session for each client",
            "a pooler in front of the server gives a session to another client after each transaction, with its "
            "settings and locks",
            remedy="Set pool_mode = session for this account or database in pgbouncer.ini, or let the Airflow "
            "connection name the server itself.",
        )


def _of_rights(account: Account) -> Iterator[Issue]:
    if not account.may_connect:
        yield connect_issue(account.database, account.role)
    if account.may_use_plpgsql is not True:
        statement = "CREATE EXTENSION plpgsql"
        if account.may_use_plpgsql is False:
            statement = f"GRANT USAGE ON LANGUAGE plpgsql TO {account.role}"
        yield issue("USAGE on the language plpgsql", "Sluice's own functions are written in it", statement)
    if account.missing_functions:
        functions = ", ".join(f"pg_catalog.{signature}" for signature in account.missing_functions)
        yield issue(
            f"EXECUTE on {functions}",
            "positions are taken and secured with PostgreSQL's own functions, which everybody may execute unless "
            "that was revoked",
            f"GRANT EXECUTE ON FUNCTION {functions} TO {account.role}",
            by=f"{ADMINISTRATOR}, in this database",
        )


def _of_limits(account: Account, loaders: int) -> Iterator[Issue]:
    needed = loaders + BESIDE_LOADERS
    if account.room < needed:
        yield issue(
            f"{needed} free connections",
            f"{max(account.room, 0)} are free by {account.room_limit}; an initial update with "
            f"{counted(loaders, 'loader')} and the apply use up to {needed}, and wait for one where there is none",
            severity=Severity.WARNING,
            remedy="Raise the limit, or lower initial.parallel in the replication's configuration.",
        )
    if abs(account.ahead) > CLOCKS_APART + account.uncertain:
        direction = "ahead of" if account.ahead > 0 else "behind"
        yield issue(
            "the right time",
            f"the server's clock is {abs(account.ahead):.0f} s {direction} this machine's: ages and lags are shown "
            "wrong by as much",
            severity=Severity.WARNING,
            remedy="Synchronise the clocks of both machines (NTP).",
        )


def superuser_issue(account: Account, allowed: bool) -> Issue:
    """The account is a superuser, or may become a similar role."""
    what = "is a superuser" if account.superuser else f"may become {listed(account.powers)}"
    remedy = "Make an account that has just what is needed (docs/privileges.md), and let the Airflow connection name it"
    return issue(
        "an account that is no superuser",
        f"{account.role} {what}: SQL that somebody gets run with its rights, by a stolen password or a mistake, "
        "reaches all databases of the server, its files and its programs",
        severity=Severity.NOTE if allowed else Severity.ERROR,
        remedy=f"{remedy}."
        if allowed
        else f"{remedy}; or say allow_superuser: true for this side in the configuration.",
    )


def connect_issue(database: str, role: str) -> Issue:
    """The account may not connect to the database; both quoted."""
    return issue(
        f"CONNECT on the database {database}",
        "nothing can be done there without",
        f"GRANT CONNECT ON DATABASE {database} TO {role}",
        by=f"the owner of the database or {ADMINISTRATOR}",
    )


def of_schemas(account: Account, schemas: Iterable[Schema], needs: Mapping[str, Mapping[str, str]]) -> Iterator[Issue]:
    """Privileges that the account lacks on existing schemas. `needs`: schema → privilege → what needs it."""
    for schema in schemas:
        if schema.owner is None:
            continue
        has = {"USAGE": schema.usage, "CREATE": schema.create}
        missing = {privilege: why for privilege, why in needs[schema.name].items() if not has[privilege]}
        if missing:
            privileges = ", ".join(missing)
            yield issue(
                f"{privileges} on the schema {schema.quoted}",
                "; ".join(dict.fromkeys(missing.values())),
                f"GRANT {privileges} ON SCHEMA {schema.quoted} TO {account.role}",
                by=by_owner(schema.owner),
            )


def schema_issue(role: str, schema: Schema, why: str) -> Issue:
    """A schema that does not exist and that the account `role` may not create."""
    return issue(f"the schema {schema.quoted}", why, f"CREATE SCHEMA {schema.quoted} AUTHORIZATION {role}")


def of_foreign(role: str, objects: Sequence[Foreign]) -> Iterator[Issue]:
    """Objects with Sluice's names that do not belong to its account `role`."""
    if former := [each for each in objects if each.owned_by_superuser and each.kind in _OWNABLE]:
        yield issue(
            f"the ownership of {listed([each.quoted for each in former])}",
            f"these are Sluice's own and belong to {_owners(former)}; {role} upgrades and replaces them",
            ";\n".join(_owned_by(role, former)),
        )
    if others := [each for each in objects if each not in former]:
        yield issue(
            f"the ownership of {listed([each.quoted for each in others])}",
            f"Sluice would use these as its own, with the rights of {role}, and they belong to {_owners(others)}",
            # A prepared object stays dangerous under any owner, by its triggers and privileges.
            remedy=f"If {_owners(others)} was the account of the replication until now, an administrator gives each of "
            f"them to the new one: {_owned_by(role, others)[0]}. If not, they are not Sluice's: drop them, rename "
            "them, or let schema: name another schema.",
        )


def _owners(objects: Sequence[Foreign]) -> str:
    return listed(sorted({each.owner for each in objects}))


def _owned_by(role: str, objects: Sequence[Foreign]) -> list[str]:
    return [f"ALTER {each.kind} {each.quoted} OWNER TO {role}" for each in objects]


def of_row_security(account: Account, tables: Sequence[str], why: str) -> Iterator[Issue]:
    """Row level security applies to the account on these `tables` (quoted)."""
    if tables:
        yield issue(
            f"BYPASSRLS for {account.role}",
            f"row level security hides rows of {listed(tables)} from it: {why}",
            f"ALTER ROLE {account.role} BYPASSRLS",
        )


def sequences_issue(
    sequences: Iterable[SequenceDefinition | FreeSequence], privileges: str, why: str, role: str
) -> list[Issue]:
    """`privileges` that the account lacks on sequences, grouped by owner."""
    groups: dict[str, dict[str, None]] = {}
    for each in sequences:
        groups.setdefault(each.owner, {})[quoted_name(each)] = None
    return [
        issue(
            f"{privileges} on the {'sequence' if len(names) == 1 else 'sequences'} {listed(list(names))}",
            why,
            f"GRANT {privileges} ON SEQUENCE {', '.join(names)} TO {role}",
            Severity.WARNING,
            by=by_owner(owner),
        )
        for owner, names in groups.items()
    ]


def silence_issue(account: Account, keys: Sequence[str]) -> Issue:
    """The account may not switch off triggers for its own session; `keys`: foreign keys that blocks would violate."""
    without = (
        "the apply then cannot switch off the slave's triggers and foreign keys in its session: they act on every "
        "change that it applies (docs/apply.md)"
    )
    if keys:
        without = f"foreign keys {listed(keys)} would be violated while blocks are loaded in any order; and {without}"
    return issue(
        "SET on the parameter session_replication_role",
        without,
        silence_statement(account.role, account.database, account.version),
        Severity.ERROR if keys else Severity.WARNING,
    )


def of_refusal(info: ConnectionInfo, reason: str) -> Issue:
    """The server, or a proxy, refuses the account; `reason` is a sentence."""
    if "permission denied for database" in reason:
        return connect_issue(quoted(info.database), quoted(info.user))
    return issue("a connection", reason.rstrip("."), remedy="")
