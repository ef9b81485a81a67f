"""The databases of a replication, with the log-ins of its own account and of an administrator."""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from sluice.cli.console import Console
from sluice.configuration.model import Replication
from sluice.database.accounts import Accounts, MasterContents
from sluice.database.addresses import vendor_of_url
from sluice.database.capture import Capture
from sluice.database.errors import Contended, DatabaseError, ServerUnproved
from sluice.database.registry import master_of, reach, vendor_of
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import MASTER, Issue, fixes, slave_side
from sluice.model.names import Prefix
from sluice.preflight.checks import of_master, of_slave

APPLICATION = "sluice add"
ACCOUNT = "sluice"
"""The default account in a URL."""
URLS = "postgresql://host:port/database or mysql://host:port/database"
TRIES = 3


class NoPassword(Terminal):
    """A server refused a log-in, and there is no terminal to ask for the password."""

    def __init__(self, who: str, info: ConnectionInfo, refused: Terminal, remedy: str):
        reason = refused.reason if isinstance(refused, DatabaseError) and refused.reason else str(refused)
        places = vendor_of(info.vendor).accounts.password_places(info)
        super().__init__(
            f"{who[0].upper()}{who[1:]} ({info.server}) cannot log in: {reason.rstrip('.')}. The password is taken "
            f"from {places}, or asked for at a terminal. {remedy}"
        )


@dataclass
class Side:
    """One database of a replication."""

    name: str
    """`master`, or the slave."""
    conn_id: str
    info: ConnectionInfo
    """The log-in of the replication's account; with its password once it is known."""
    admin: ConnectionInfo | None = None
    """The log-in of an administrator, if it was given."""
    role_missing: bool = False
    database_missing: bool = False
    reasons: dict[str, str] = field(default_factory=dict)
    """Why each planned statement is needed."""

    @property
    def accounts(self) -> Accounts:
        return vendor_of(self.info.vendor).accounts

    def capture(self, session: Session, prefix: Prefix, schema: str) -> Capture:
        """The DbResources of a prefix there, over a session of the account or of the administrator."""
        return master_of(self.info.vendor).capture(session, prefix, schema)

    @property
    def contents(self) -> MasterContents:
        """Only for a master."""
        return master_of(self.info.vendor).contents

    @property
    def account(self) -> str:
        return self.info.user

    @property
    def server(self) -> tuple[str, int, str]:
        """Host, port and account: sides with the same ones share the password."""
        return self.info.host, self.info.port, self.info.user

    @property
    def label(self) -> str:
        """Address and connection, for messages."""
        return f"{self.info.server}, connection {self.conn_id}"


def parsed(url: str, user: str = ACCOUNT) -> ConnectionInfo:
    """Parses a URL without a password. Raises `BadAddress`, `PasswordShown`."""
    return vendor_of(vendor_of_url(url)).accounts.parse(url, user)


def administrator(text: str, info: ConnectionInfo) -> ConnectionInfo:
    """Parses an administrator's log-in: a user at the address of the side, or a URL."""
    usual = vendor_of(info.vendor).accounts.ADMINISTRATOR
    return parsed(text, usual) if "://" in text else replace(info, user=text, password="")


def choose_administrators(given: Sequence[str], parties: Sequence[Side]) -> None:
    """Sets the log-in of `--admin` for each side, without a password yet."""
    by_name = {side.name: side for side in parties}
    for text in given:
        name, equals, login = text.partition("=")
        chosen: Iterable[Side] = parties
        if equals and "://" not in name:
            if name not in by_name:
                raise Terminal(
                    f"--admin {text}: there is no side {name!r}; there are {', '.join(by_name)}.", code="unknown-side"
                )
            chosen = [by_name[name]]
        else:
            login = text
        for side in chosen:
            side.admin = administrator(login, side.info)


def with_password(console: Console, info: ConnectionInfo, who: str, remedy: str = "") -> ConnectionInfo:
    """The log-in with a password that the server accepts: from the environment, a password file, or the terminal.

    `who`: the log-in, in words. `remedy`: for an unknown password or log-in. Raises `NoPassword`,
    `DatabaseUnreachable`.
    """
    accounts = vendor_of(info.vendor).accounts
    given = _with_known(info)
    for attempt in range(TRIES):
        try:
            with session(given) as connected:
                return replace(given, password=accounts.password_used(connected) or given.password)
        except ServerUnproved:
            raise  # another password would not help
        except Terminal as refused:
            if not console.interactive:
                raise NoPassword(who, info, refused, remedy) from refused
            if attempt == TRIES - 1:
                raise
            if given.password:
                console.say(f"  {refused}")
        given = replace(info, password=console.secret(f"Password of {who} ({info.server})", accounts.PASSWORD_VARIABLE))
    raise AssertionError("the last try returns or raises")


def known(info: ConnectionInfo) -> ConnectionInfo | None:
    """The log-in with a password from the environment or a password file; None if the server refuses it."""
    given = _with_known(info)
    try:
        with session(given) as connected:
            used = vendor_of(info.vendor).accounts.password_used(connected)
            return replace(given, password=used or given.password)
    except Terminal:
        return None


def _with_known(info: ConnectionInfo) -> ConnectionInfo:
    """The log-in with the environment's password, unless it has one."""
    variable = vendor_of(info.vendor).accounts.PASSWORD_VARIABLE
    return replace(info, password=info.password or os.environ.get(variable, ""))


def administrators_password(console: Console, side: Side) -> ConnectionInfo:
    """The administrator's log-in with its password. Raises `NoPassword`."""
    assert side.admin is not None
    # The database of a slave may not exist yet.
    elsewhere = replace(side.admin, database=side.accounts.MAINTENANCE)
    who = f"the administrator {side.admin.user} of {side.name}"
    another = f"--admin {side.name}=LOGIN names another one."
    administrator = known(elsewhere) or known(side.admin) or with_password(console, elsewhere, who, another)
    return replace(administrator, database=side.admin.database)


def accounts_password(console: Console, side: Side) -> ConnectionInfo:
    """The account's log-in with its password. Raises `NoPassword`."""
    who = f"the account {side.account} of {side.name}"
    remedy = side.accounts.account_help(side.account)
    account = known(side.info) or with_password(console, _entered(side), who, remedy)
    return replace(account, database=side.info.database)


def renewed_password(console: Console, side: Side, *, kept: bool) -> str | None:
    """Sets a new password for an existing account, as the administrator and after a confirmation: an earlier `remove`
    may have deleted the only connection with the old one. None if the password is known or the account is in use.

    `--yes` confirms this only for Sluice's default account: another account may belong to an application.
    """
    if (console.yes and side.account != ACCOUNT) or known(side.info) or known(_entered(side)):
        return None
    with elsewhere(side) as connected:
        question = (
            f"The account {side.account} is there on {side.name} ({side.info.server}), and nobody is logged in with "
            f"it. Its password is not known here; it is looked for in {side.accounts.password_places(side.info)}. Give "
            "it a new one?"
        )
        if side.accounts.is_logged_in(connected, side.account) or not console.confirm(question):
            return None
        password = new_password(console, side, kept=kept)
        side.accounts.set_password(connected, side.account, password)
    console.say(f"{side.name}: {side.account} has a new password")
    return password


def _entered(side: Side) -> ConnectionInfo:
    """The log-in of the account, to the maintenance database if there is an administrator: its own database may not
    exist yet, or not admit the account."""
    return side.info if side.admin is None else replace(side.info, database=side.accounts.MAINTENANCE)


def examine(side: Side) -> None:
    """Finds out as the administrator whether account and database exist. Raises errors of the session."""
    assert side.admin is not None
    with elsewhere(side) as connected:
        side.role_missing = not side.accounts.role_exists(connected, side.account)
        side.database_missing = not side.accounts.database_exists(connected, side.info.database)


@contextmanager
def elsewhere(side: Side) -> Iterator[Session]:
    """An administrator's session on the server, in the side's database or the maintenance database."""
    assert side.admin is not None
    with ExitStack() as stack:
        try:
            connected = stack.enter_context(session(side.admin))
        except Terminal:
            connected = stack.enter_context(session(replace(side.admin, database=side.accounts.MAINTENANCE)))
        yield connected


@contextmanager
def session(info: ConnectionInfo) -> Iterator[Session]:
    """A session in autocommit mode."""
    with reach(info, APPLICATION) as connected:
        yield connected


def new_password(console: Console, side: Side, *, kept: bool) -> str:
    """A password for an account: generated if Airflow stores it (`kept`), else asked for."""
    if kept:
        return secrets.token_urlsafe(24)
    new = "new " if side.role_missing else ""
    return console.secret(f"A password for the {new}account {side.account} on {side.name}", "an account that is there")


# The SQL that a replication needs on its servers: found by the preflight, tried, printed, run.

T = TypeVar("T")

OF_ROLE = "the account of the replication; without grants it may only log in"
OF_DATABASE = "the slave's database, which the account fills"
OF_NEW_DATABASE = "the account loads and applies, and the slave's own triggers must not act on that a second time"
GRANT_TRIES = 5
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
    for _ in range(GRANT_TRIES - 1):
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
