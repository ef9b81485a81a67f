"""Features of the server under test: releases differ, and so do the extensions that come with them."""

from collections.abc import Sequence
from typing import Any, TypeVar

import psycopg

V = TypeVar("V", str, str | None)


def has_extension(connection: psycopg.Connection[Any], name: str) -> bool:
    found = connection.execute("SELECT 1 FROM pg_catalog.pg_available_extensions WHERE name = %s", [name]).fetchone()
    return found is not None


def values_there(connection: psycopg.Connection[Any], kind: str, values: Sequence[V]) -> list[V]:
    """The values of a type that this server knows; none if it lacks the type."""
    if kind.startswith("public.vector") and not has_extension(connection, "vector"):
        return []
    if kind == "numeric(4,-2)" and connection.info.server_version < 150000:
        return []
    infinite_intervals = connection.info.server_version >= 170000
    return [value for value in values if kind != "interval" or value != "infinity" or infinite_intervals]
