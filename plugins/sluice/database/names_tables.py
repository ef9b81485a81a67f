"""The parts of a vendor that use names of tables."""

from typing import Protocol


class NamesTables(Protocol):
    """A part of a vendor whose methods take or give names of tables of one database, the master's or a slave's.

    Services have those of a slave from `sluice.database.placed`: its tables may be elsewhere than the master's.
    """
