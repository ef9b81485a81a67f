"""Requests of a verification to the apply of a slave, and the answers; JSON in transit."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sluice.errors import Transient
from sluice.model.names import TableName
from sluice.model.reject import Row

T = TypeVar("T")


def unknown_request(what: str) -> Transient:
    """A request or answer of another release, which cannot be read."""
    return Transient(
        f"{what}. Where the apply still runs as before an upgrade, clear its task apply.", code="unknown-request"
    )


@dataclass(frozen=True)
class SnapshotsRequest:
    """Requests snapshots of master and slave at one position."""

    kind = "snapshots"

    @property
    def values(self) -> dict[str, object]:
        return {}

    @classmethod
    def read(cls, values: Mapping[str, object]) -> "SnapshotsRequest":
        return cls()


@dataclass(frozen=True)
class Snapshots:
    """The answer: both snapshots, for `begin_snapshot` on each side, and how long the apply paused."""

    master: str
    slave: str
    position: str
    seconds: float = 0.0

    @property
    def values(self) -> dict[str, object]:
        return {"master": self.master, "slave": self.slave, "position": self.position, "seconds": self.seconds}

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Snapshots":
        return cls(str(values["master"]), str(values["slave"]), str(values["position"]), float(values["seconds"]))


@dataclass(frozen=True)
class RepairRequest:
    """Requests that rows are made equal to the master's."""

    kind = "repair"

    table: TableName
    key: tuple[str, ...]
    """Names of the key's columns; empty for a table without a key."""
    columns: tuple[tuple[str, str], ...]
    """Names and types of the columns in `rows`."""
    rows: tuple[Row, ...]
    """Values of the keys; without a key, whole rows."""

    @property
    def values(self) -> dict[str, object]:
        return {
            "table": [self.table.schema, self.table.name],
            "key": self.key,
            "columns": self.columns,
            "rows": self.rows,
        }

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "RepairRequest":
        schema, name = values["table"]
        columns = tuple((str(column), str(kind)) for column, kind in values["columns"])
        return cls(TableName(schema, name), tuple(values["key"]), columns, tuple(tuple(row) for row in values["rows"]))


@dataclass(frozen=True)
class Repaired:
    """The answer to a repair."""

    settled: int
    """The number of rejects that were settled by it."""
    position: str
    seconds: float = 0.0
    kept: int = 0
    """The number of rows that were not changed, because a rule prefers the slave's row."""

    @property
    def values(self) -> dict[str, object]:
        return {"settled": self.settled, "position": self.position, "seconds": self.seconds, "kept": self.kept}

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Repaired":
        return cls(
            int(values["settled"]), str(values["position"]), float(values["seconds"]), int(values.get("kept", 0))
        )


@dataclass(frozen=True)
class Refused:
    """The answer if the apply could not do what was requested."""

    reason: str

    @property
    def values(self) -> dict[str, object]:
        return {"refused": self.reason}


Request = SnapshotsRequest | RepairRequest
Answer = Snapshots | Repaired | Refused
KINDS: dict[str, type[SnapshotsRequest | RepairRequest]] = {
    each.kind: each for each in (SnapshotsRequest, RepairRequest)
}


def request_text(request: Request) -> str:
    return json.dumps({"kind": request.kind, "values": request.values})


def parse_request(text: str) -> Request:
    """Raises `unknown-request`."""
    try:
        request = json.loads(text)
        return KINDS[request["kind"]].read(request["values"])
    except (KeyError, TypeError, ValueError) as error:
        raise unknown_request(f"The apply does not understand a request: {error!r}") from error


def answer_text(answer: Answer) -> str:
    return json.dumps(answer.values)


def parse_answer(text: str, read: Callable[[Mapping[str, object]], T]) -> T | Refused:
    """The answer to a request; `read` reads it unless it is a refusal. Raises `unknown-request`."""
    try:
        values = json.loads(text)
        return Refused(str(values["refused"])) if "refused" in values else read(values)
    except (KeyError, TypeError, ValueError) as error:
        raise unknown_request(f"The apply's answer is not understood: {error!r}") from error
