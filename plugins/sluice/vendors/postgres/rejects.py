"""`<prefix>REJECTS` on a PostgreSQL slave: changes set aside because they did not fit its rows."""

from collections.abc import Sequence
from typing import Any

import psycopg

from sluice import sql_files
from sluice.domain.names import Prefix
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.replay import Reject


def put(
    connection: psycopg.Connection[Any], prefix: Prefix, schema: str, slave: str, rejects: Sequence[Reject]
) -> None:
    """Keeps the changes with both images and the reason; the caller commits."""
    statement = sql_files.render("postgres", "rejects_put", prefix=prefix.lower, schema=quoted(schema))
    connection.cursor().executemany(
        statement,
        [
            {
                "slave": slave,
                "repl_key": reject.change.repl_key,
                "table_schema": reject.change.table.schema,
                "table": reject.change.table.name,
                "action": str(reject.change.action),
                "content": reject.change.content,
                "oldcontent": reject.change.oldcontent,
                "reason": reject.reason,
            }
            for reject in rejects
        ],
    )
