"""Random writers on tables of a test: inserts, updates of values and keys, deletes."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg

from sluice.model.connection import ConnectionInfo
from workload.operations import Operation, Work
from workload.writer import Profile, Writer


@dataclass(frozen=True)
class Writable:
    """A table for traffic: its quoted name, its key columns, and SQL of a random key and value."""

    name: str
    key: tuple[str, ...]
    make_key: str
    """SQL expressions of a random key (as a row), with `random()` and friends."""
    value: str = "v"

    @property
    def keys(self) -> str:
        return ", ".join(self.key)

    @property
    def a_row(self) -> str:
        """A condition that matches about one random existing row: near a random key in key order."""
        return (
            f"({self.keys}) = (SELECT {self.keys} FROM {self.name} WHERE ({self.keys}) >= (SELECT {self.make_key}) "
            f"ORDER BY {self.keys} LIMIT 1)"
        )

    def statements(self, text: str) -> list[str]:
        """The statements, each equally likely."""
        if not self.key:
            return [
                f"INSERT INTO {self.name} ({self.value}) VALUES ('v' || (random() * 5)::int)",
                f"UPDATE {self.name} SET {self.value} = '{text}' WHERE ctid = (SELECT ctid FROM {self.name} "
                "OFFSET floor(random() * 20) LIMIT 1)",
                f"DELETE FROM {self.name} WHERE ctid = (SELECT ctid FROM {self.name} LIMIT 1)",
            ]
        return [
            f"INSERT INTO {self.name} ({self.keys}, {self.value}) SELECT {self.make_key}, '{text}' "
            "ON CONFLICT DO NOTHING",
            f"UPDATE {self.name} SET {self.value} = '{text}' WHERE {self.a_row}",
            f"UPDATE {self.name} SET ({self.keys}) = ROW({self.make_key}) WHERE {self.a_row}",
            f"DELETE FROM {self.name} WHERE {self.a_row}",
        ]


def operations(tables: Sequence[Writable]) -> tuple[Operation, ...]:
    """An operation for each table."""

    def change(table: Writable, work: Work, chance: Random) -> None:
        statement = chance.choice(table.statements(f"v{chance.random()}"))
        with suppress(psycopg.errors.UniqueViolation), work.connection.transaction():
            work.write(statement)

    def named(table: Writable) -> Operation:
        def operation(work: Work, chance: Random) -> None:
            change(table, work, chance)

        return operation

    return tuple(named(table) for table in tables)


class TableWriter(Writer):
    """A writer that finds types and operators of the schema public."""

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("SET search_path TO pg_catalog, public")


class Traffic(AbstractContextManager["Traffic"]):
    """Writers that run in the block."""

    def __init__(self, info: ConnectionInfo, tables: Sequence[Writable], writers: int = 3, seed: int = 0):
        profile = Profile("traffic", operations(tables), (1, 5), (0.0, 0.0), (0.02, 0.1))
        self.writers = [TableWriter(info, number, profile, seed) for number in range(writers)]

    @property
    def transactions(self) -> int:
        """The number of committed transactions."""
        return sum(writer.tally.committed for writer in self.writers)

    def __enter__(self) -> "Traffic":
        for writer in self.writers:
            writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.join()
        for writer in self.writers:
            if writer.failure:
                raise writer.failure
            assert writer.tally.unexpected == []
