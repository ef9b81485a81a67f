"""Finds changes of structure on a PostgreSQL master by comparison, where no event trigger reports them."""

from typing import Any

import psycopg

from sluice.domain.names import Prefix
from sluice.vendors.postgres.connection import quoted


def check(connection: psycopg.Connection[Any], prefix: Prefix, schema: str) -> int:
    """Compares the replicated tables with what was recorded, queues a DDL item for each change; how many.

    One transaction, on a connection in autocommit mode. Where event triggers report the changes
    there is nothing left to find. Raises psycopg's errors.
    """
    function = quoted(schema, f"{prefix.lower}check_structure")
    row = connection.execute(f"SELECT {function}()").fetchone()
    return int(row[0] or 0) if row else 0
