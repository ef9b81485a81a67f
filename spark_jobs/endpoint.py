"""Where Spark is, as a job is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Endpoint:
    """A Connect endpoint, or a master for which the job starts a Connect server of its own."""

    remote: str = field(default="", repr=False)
    """`sc://host:port/;token=…`, empty where there is none yet."""
    packages: str = ""
    """An archive that `./sluice pack` made, for executors that lack the packages; empty where they have them."""
    master: str = "local[*]"
    """Where `remote` is empty: what its own server is started for."""
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of that server; secrets may be among them."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Endpoint":
        """From a job's input. Raises `TypeError` for keys that are unknown."""
        return cls(**values)

    def __str__(self) -> str:
        """Without what is secret."""
        if not self.remote:
            return self.master
        parts = urlsplit(self.remote)
        return f"sc://{parts.hostname}:{parts.port or 15002}"
