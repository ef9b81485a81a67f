"""Sessions on PostgreSQL for services (`sluice.database.session.Sessions`)."""

from sluice.database.session import PLAIN, SessionOptions
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.connection import PostgresSession
from sluice.vendors.postgres.session_settings import origin


def connect(
    info: ConnectionInfo, *, application: str, autocommit: bool = False, options: SessionOptions = PLAIN
) -> PostgresSession:
    """A session under the canonical settings and these. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
    return connection.connect(info, application=application, autocommit=autocommit, settings=_settings(options))


def _settings(options: SessionOptions) -> dict[str, str]:
    settings: dict[str, str] = {}
    if options.statement_seconds is not None:
        settings["statement_timeout"] = f"{int(options.statement_seconds * 1000)}ms"
    if options.lock_seconds is not None:
        settings["lock_timeout"] = f"{int(options.lock_seconds * 1000)}ms"
    if options.read_only:
        settings["default_transaction_read_only"] = "on"
    if not options.durable:
        settings["synchronous_commit"] = "off"
    if options.loads:
        # Whatever the role has: claims must not fail to serialize.
        settings["default_transaction_isolation"] = "read committed"
        settings["row_security"] = "off"
    if options.origin:
        settings |= origin(options.origin)
    return settings
