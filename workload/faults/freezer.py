"""Programs that are stopped for a while."""

import signal
from collections.abc import Iterable

from devstack.process import ProcessId


class Freezer:
    """SIGSTOP to all processes of a program, SIGCONT to them afterwards. Programs have names."""

    def __init__(self) -> None:
        self._frozen: dict[str, list[ProcessId]] = {}

    def freeze(self, name: str, processes: Iterable[ProcessId]) -> bool:
        """Whether one of the processes runs. None of them answers from here on, and none can be waited for."""
        alive = self._frozen[name] = [process for process in processes if process.alive()]
        for process in alive:
            process.send(signal.SIGSTOP)
        return bool(alive)

    def holds(self, name: str) -> bool:
        return bool(self._frozen.get(name))

    def thaw(self, name: str) -> None:
        """Thaws a process; one that is not frozen, or has ended, is no error."""
        for process in self._frozen.pop(name, []):
            process.send(signal.SIGCONT)

    def thaw_all(self) -> None:
        for name in list(self._frozen):
            self.thaw(name)
