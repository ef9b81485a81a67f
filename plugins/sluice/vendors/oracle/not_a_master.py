"""What Oracle is not asked for yet."""

from sluice.errors import Terminal


class NotAMaster(Terminal):
    """Oracle serves as a slave only."""

    def __init__(self) -> None:
        super().__init__(
            "Oracle is a slave only: its capture and its positions are written, what reads changes and rows there is "
            "not. Name a connection of another vendor for the master: docs/oracle.md."
        )


class NotSetUp(Terminal):
    """`./sluice add` and `remove` do not know accounts of Oracle."""

    def __init__(self) -> None:
        super().__init__(
            "Accounts of Oracle are made by an administrator, and the replication's file by hand: docs/oracle-slave.md."
        )
