"""What a verification asks of the apply of a slave, and what the apply answers: JSON on the way."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sluice.errors import Transient
from sluice.model.names import TableName
from sluice.model.reject import Row

T = TypeVar("T")


class RequestUnknown(Transient):
    """A request, or an answer, as another release words it."""

    def __init__(self, what: str):
        super().__init__(f"{what}. Where the apply still runs as before an upgrade, clear its task apply.")


@dataclass(frozen=True)
class SnapshotsRequest:
    """Asks for snapshots of master and slave at one position."""

    kind = "snapshots"

    @property
    def values(self) -> dict[str, object]:
        return {}

    @classmethod
    def read(cls, values: Mapping[str, object]) -> "SnapshotsRequest":
        return cls()


@dataclass(frozen=True)
class Snapshots:
    """The answer: where both are, for `begin_snapshot` on each side, and how long the apply paused."""

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
    """Asks for rows to be made equal to the master's."""

    kind = "repair"

    table: TableName
    key: tuple[str, ...]
    """Names of the key's columns; empty for a table without key."""
    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    rows: tuple[Row, ...]
    """Values of the keys; without a key, of whole rows."""

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
    """The answer."""

    settled: int
    """How many changes that were set aside are settled by it."""
    position: str
    seconds: float = 0.0
    kept: int = 0
    """How many rows stay as they are, because a rule says that the slave's row wins."""

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
    """The answer where the apply could not do what it was asked for."""

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
    """Raises `RequestUnknown`."""
    try:
        found = json.loads(text)
        return KINDS[found["kind"]].read(found["values"])
    except (KeyError, TypeError, ValueError) as error:
        raise RequestUnknown(f"The apply does not understand a request: {error!r}") from error


def answer_text(answer: Answer) -> str:
    return json.dumps(answer.values)


def parse_answer(text: str, read: Callable[[Mapping[str, object]], T]) -> T | Refused:
    """The answer to a request whose answers `read` reads. Raises `RequestUnknown`."""
    try:
        values = json.loads(text)
        return Refused(str(values["refused"])) if "refused" in values else read(values)
    except (KeyError, TypeError, ValueError) as error:
        raise RequestUnknown(f"The apply's answer is not understood: {error!r}") from error
