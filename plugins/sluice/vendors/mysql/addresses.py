"""URLs of databases of MySQL and MariaDB."""

import os
from urllib.parse import parse_qsl, unquote, urlsplit

from sluice.database.addresses import BadAddress, PasswordShown
from sluice.model.connection import ConnectionInfo, option_fault
from sluice.model.vendors import VENDORS

FORM = "mysql://user@host:port/database"


def located(url: str | None) -> ConnectionInfo:
    """The database that a URL names, with the password of MYSQL_PWD. Raises `BadAddress`, `PasswordShown`."""
    try:
        parts = urlsplit(url or "")
        port = parts.port or VENDORS["mysql"].port
    except ValueError:
        raise BadAddress("The URL", "its port is no number", FORM) from None  # but may be a password
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.password is not None or "password" in options:
        raise PasswordShown(parts.hostname or "a server", "MYSQL_PWD")
    database = unquote(parts.path.removeprefix("/"))
    if parts.scheme != "mysql" or not parts.hostname or not database:
        raise BadAddress(url or "The URL", "it needs a host and a database", FORM)
    if fault := option_fault(options):
        raise BadAddress("The URL", fault.rstrip("."), FORM)
    user = unquote(parts.username or os.environ.get("USER", ""))
    return ConnectionInfo("mysql", parts.hostname, port, database, user, os.environ.get("MYSQL_PWD", ""), options)
