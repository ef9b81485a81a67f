"""What a vendor's package offers to services."""

from typing import Protocol

from sluice.database.changes import ChangeSource
from sluice.database.control import ControlTables, LoadLocks
from sluice.database.rows import RowSource
from sluice.database.session import Sessions


class Vendor(Protocol):
    """One database system. Each part is imported when it is first asked for."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def control(self) -> ControlTables: ...

    @property
    def loads(self) -> LoadLocks: ...

    @property
    def changes(self) -> ChangeSource: ...

    @property
    def rows(self) -> RowSource: ...
