"""Functions of a master, which MySQL and MariaDB do not have."""

from sluice.errors import Terminal
from sluice.vendors.common.absent import Absent


class NotAMaster(Terminal):
    """MySQL and MariaDB serve as slaves only."""

    def __init__(self) -> None:
        super().__init__(
            "MySQL and MariaDB are slaves only: changes are not captured there, and a slave there cannot become the "
            "master. Name a connection of another vendor for the master: docs/mariadb.md."
        )


not_a_master = Absent(NotAMaster)
