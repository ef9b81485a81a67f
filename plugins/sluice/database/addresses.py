"""URLs of databases on command lines, and what is wrong with one."""

import os
from dataclasses import replace
from urllib.parse import parse_qsl, unquote, urlsplit

from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo, option_fault
from sluice.model.vendors import FIRST, VENDORS


class BadAddress(Terminal):
    """A URL that leads to no database. `form`: how one is written."""

    def __init__(self, url: str, reason: str, form: str):
        super().__init__(f"{url}: {reason}. Write {form}.")


class PasswordShown(Terminal):
    """A URL with a password in it. `sources`: where it is taken from instead."""

    def __init__(self, host: str, sources: str):
        super().__init__(
            f"The URL of {host} has a password in it, which a command line shows to everybody on this machine. Leave "
            f"it out: it is taken from {sources}. Change it now."
        )


def located(url: str | None, vendor: str, variable: str) -> ConnectionInfo:
    """The database of `vendor` that a URL names, with the password of the environment's `variable`.

    Raises `BadAddress`, `PasswordShown`.
    """
    info = parsed(url, vendor, os.environ.get("USER", ""), variable)
    return replace(info, password=os.environ.get(variable, ""))


def parsed(url: str | None, vendor: str, user: str, sources: str) -> ConnectionInfo:
    """The database of `vendor` that a URL names, as `user` if it names none; without a password.

    `sources`: where that is taken from. Raises `BadAddress`, `PasswordShown`.
    """
    form = f"{vendor}://user@host:port/database"
    try:
        parts = urlsplit(url or "")
        port = parts.port or VENDORS[vendor].port
    except ValueError:
        raise BadAddress("The URL", "its port is no number", form) from None  # but may be a password
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.password is not None or "password" in options:
        raise PasswordShown(parts.hostname or "a server", sources)
    database = unquote(parts.path.removeprefix("/"))
    if parts.scheme != vendor or not parts.hostname or not database:
        raise BadAddress(url or "The URL", "it needs a host and a database", form)
    if fault := option_fault(options, vendor):
        raise BadAddress("The URL", fault.rstrip("."), form)
    return ConnectionInfo(vendor, parts.hostname, port, database, unquote(parts.username or "") or user, "", options)


def vendor_of_url(url: str | None) -> str:
    """The vendor of a URL; the first vendor's URLs have a scheme of another name."""
    scheme = (url or "").partition("://")[0]
    return scheme if scheme in VENDORS else FIRST
