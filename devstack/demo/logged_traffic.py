"""The traffic on a MariaDB master: threads of this process."""

from collections import Counter

from devstack.demo.accounts import DATABASE, OWNER
from devstack.demo.traffic import TrafficFailed
from devstack.mariadb import MariaDBServer
from workload.mariadb import WRITERS, Writer
from workload.writer import Pace


class LoggedTraffic:
    """See `devstack.demo.traffic.Traffic`."""

    def __init__(self, master: MariaDBServer, rate: float, scale: int, seed: int) -> None:
        pace = Pace(rate)
        connect = lambda: master.connect(DATABASE, OWNER)  # noqa: E731
        self._writers = [Writer(connect, number, scale, seed, pace) for number in range(len(WRITERS))]
        self._ended = False

    def start(self) -> None:
        for writer in self._writers:
            writer.start()

    def stop(self) -> None:
        """Returns when nobody writes. Raises `TrafficFailed`."""
        self._ended = True
        for writer in self._writers:
            writer.stop()
        for writer in self._writers:
            if writer.ident is not None:
                writer.join()
        if problems := [writer.failure for writer in self._writers if writer.failure]:
            raise TrafficFailed(problems)

    @property
    def running(self) -> bool:
        return not self._ended

    @property
    def tally(self) -> dict[str, int]:
        """Transactions, changes, and what was rolled back, of all writers."""
        counts = Counter[str]()
        for writer in self._writers:
            tally = writer.tally
            counts.update(transactions=tally.committed, changes=tally.changes, rolled_back=tally.rolled_back)
        return dict(counts)
