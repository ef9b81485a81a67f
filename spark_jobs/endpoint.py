"""The endpoint of Spark in the input of a job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Endpoint:
    """A Connect endpoint, or a master for which the job starts its own Connect server."""

    remote: str = field(default="", repr=False)
    """`sc://host:port/;token=…`; empty without an endpoint."""
    packages: str = ""
    """An archive from `./sluice pack`, for executors without the packages; empty if they have them."""
    master: str = "local[*]"
    """If `remote` is empty: the master for the job's own server."""
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of that server, perhaps with secrets."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Endpoint":
        """Reads a job's input. Raises `TypeError` for unknown keys."""
        return cls(**values)

    def __str__(self) -> str:
        """The text without secrets."""
        if not self.remote:
            return self.master
        parts = urlsplit(self.remote)
        return f"sc://{parts.hostname}:{parts.port or 15002}"
