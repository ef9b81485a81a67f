"""The state of a merge, stored in each commit of the stream, from which the next merge continues."""

import json
from dataclasses import dataclass
from typing import Any

from sluice.vendors.stream.redo.definitions import DdlSeen
from sluice.vendors.stream.redo.merge import Released, ThreadId

_VENDOR = "redo"


@dataclass
class State:
    """The state of the merge in a commit of the stream."""

    released: Released
    threads: dict[ThreadId, tuple[str, int, int]]
    """For each thread: the file and the place in it from which to continue, and the watermark."""
    ddl: DdlSeen
    begins: int
    """The SCN at the beginning of the stream: commits up to it are not in the stream."""
    through: int | None = None
    """See `Merge.through`."""

    def text(self) -> str:
        values = {
            "vendor": _VENDOR,
            "scn": self.released.scn,
            "begins": self.begins,
            "through": self.through,
            "last": sorted([str(thread), xid] for thread, xid in self.released.last),
            "threads": {str(thread): list(place) for thread, place in self.threads.items()},
            **self.ddl.text(),
        }
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> "State | None":
        """None for the text of another recorder."""
        values: dict[str, Any] = json.loads(text)
        if values.get("vendor") != _VENDOR:
            return None
        last = frozenset((_thread(name), xid) for name, xid in values["last"])
        threads = {_thread(name): (file, offset, scn) for name, (file, offset, scn) in values["threads"].items()}
        ddl = DdlSeen(values["altered"], values["created"], values["left"], values.get("by", {}))
        begins, through = values.get("begins", values["scn"]), values.get("through")  # Older streams do not say them.
        return cls(Released(values["scn"], last), threads, ddl, begins, through)

    @property
    def shown(self) -> int:
        """The stream has everything up to this SCN."""
        return self.through or max(self.released.scn, self.begins)

    def shows(self, scn: int) -> bool:
        """Whether the stream has exactly what was committed after its beginning and up to `scn`."""
        return self.through is not None and max(self.released.scn, self.begins) <= scn <= self.through


def _thread(name: str) -> ThreadId:
    resetlogs, _, thread = name.partition("_")
    return ThreadId(int(resetlogs), int(thread))
