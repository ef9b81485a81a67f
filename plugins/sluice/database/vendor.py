"""What a vendor's package offers to services."""

from typing import Protocol

from sluice.database.apply import ApplyTarget
from sluice.database.changes import ChangeSource
from sluice.database.control import ControlTables, LoadLocks
from sluice.database.digests import Digester
from sluice.database.rows import RowSource
from sluice.database.session import Sessions
from sluice.domain.position import Position


class Vendor(Protocol):
    """One database system. Each part is imported when it is first asked for."""

    def position(self, text: str) -> Position:
        """A position on a master of this vendor, back from its text. Raises `ValueError`."""
        ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def control(self) -> ControlTables: ...

    @property
    def loads(self) -> LoadLocks: ...

    @property
    def applying(self) -> ApplyTarget: ...

    @property
    def digests(self) -> Digester: ...

    @property
    def changes(self) -> ChangeSource: ...

    @property
    def rows(self) -> RowSource: ...
