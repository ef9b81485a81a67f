"""The SQL that a replication needs on its servers: found by the preflight, tried, printed, run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TypeVar

from sluice.cli.sides import Side, elsewhere, session
from sluice.configuration.model import Replication
from sluice.database.errors import Contended
from sluice.database.session import Session
from sluice.model.issue import MASTER, Issue, fixes, slave_side
from sluice.preflight.checks import of_master, of_slave

T = TypeVar("T")

OF_ROLE = "the account of the replication; without grants it may only log in"
OF_DATABASE = "the slave's database, which the account fills"
OF_NEW_DATABASE = "the account loads and applies, and the slave's own triggers must not act on that a second time"
TRIES = 5
"""Tries of a GRANT, which fails if another session changes the same object."""


def as_accounts(replication: Replication, master: Side, slaves: Sequence[Side]) -> list[Issue]:
    """What the accounts lack, checked in their own sessions. Raises `DatabaseRefused`, `DatabaseUnreachable`."""
    with ExitStack() as stack:
        source = stack.enter_context(session(master.info))
        issues = _of(replication, master, source, None)
        for side in slaves:
            issues += _of(replication, side, stack.enter_context(session(side.info)), source)
    return issues


def planned(replication: Replication, master: Side, slaves: Sequence[Side]) -> dict[str, list[str]]:
    """The statements that each side needs, by its name. With an administrator's login they are tried and rolled back.

    Statements for a database that does not exist yet cannot be tried: the account will own it.
    """
    statements: dict[str, list[str]] = {}
    with session(master.admin or master.info) as source:
        encoding = master.contents.encoding(source)
        for side in (master, *slaves):
            if side.database_missing:
                role = [side.accounts.create_role(side.account)] if side.role_missing else []
                created = side.accounts.create_database(side.info.database, side.account, encoding)
                with elsewhere(side) as connected:
                    needed = side.accounts.of_new_database(connected, side.account, side.info.database)
                side.reasons.update(dict.fromkeys(role, OF_ROLE))
                side.reasons.update({created: OF_DATABASE, **dict.fromkeys(needed, OF_NEW_DATABASE)})
                statements[side.name] = [*role, created, *needed]
                continue
            # A session of its own for the master, too: of two sessions that create the same role one would wait.
            with session(side.admin or side.info) as connected:
                reference = None if side is master else source
                statements[side.name] = _beside_others(partial(_tried, replication, side, connected, reference))
                side.reasons[side.accounts.create_role(side.account)] = OF_ROLE
    return statements


def explained(side: Side, statements: Sequence[str]) -> list[tuple[str, str]]:
    """The statements with the reason of each, for an administrator who decides."""
    return [(statement, side.reasons.get(statement, "")) for statement in statements]


def carried_out(side: Side, statements: Sequence[str]) -> None:
    """Runs the printed statements, all or none; a new account gets its password.

    Raises `Contended` if others keep changing the same objects, and errors of the session.
    """
    if side.database_missing:
        _carried_out(side, statements)  # without a second try: a created database stays
    else:
        _beside_others(lambda: _carried_out(side, statements))
    side.database_missing = side.role_missing = False


def _carried_out(side: Side, statements: Sequence[str]) -> None:
    # CREATE DATABASE runs outside of a transaction, and from another database.
    with elsewhere(side) as connected, _all_or_none(connected, not side.database_missing):
        accounts = side.accounts
        created = side.role_missing and not accounts.role_exists(connected, side.account)
        # Another side on the same server may have created the role a moment ago.
        accounts.run(connected, [one for one in statements if created or one != accounts.create_role(side.account)])
        if created:
            accounts.set_password(connected, side.account, side.info.password)


def _beside_others(work: Callable[[], T]) -> T:
    """Repeats work that was rolled back because others changed the same objects."""
    for _ in range(TRIES - 1):
        with suppress(Contended):
            return work()
    return work()


def _tried(replication: Replication, side: Side, connected: Session, source: Session | None) -> list[str]:
    """The statements that a side needs. `source`: a session on the master, for a slave; None for the master itself."""

    def current_issues() -> list[Issue]:
        issues = _of(replication, side, connected, source)
        side.reasons.update({issue.statement: issue.why for issue in issues if issue.statement})
        return issues

    if side.admin is None:
        return fixes(current_issues(), [])
    return side.accounts.fixed(connected, side.account, not side.role_missing, current_issues)


def _of(replication: Replication, side: Side, connected: Session, source: Session | None) -> list[Issue]:
    if source is None:
        return [issue.at(MASTER, side.label) for issue in of_master(connected, replication)]
    issues = of_slave(connected, replication, replication.slave(side.name), master=source)
    return [issue.at(slave_side(side.name), side.label) for issue in issues]


@contextmanager
def _all_or_none(connected: Session, enabled: bool) -> Iterator[None]:
    if not enabled:
        yield
        return
    with connected.transaction():
        yield
