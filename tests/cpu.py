"""The CPU that a run of the tests takes, and what of it each file takes.

It is counted where the tests run, in their processes and in all servers and commands that they start: a busy machine
changes it little. The quick tier has a budget; a run that exceeds it says so at its end.
"""

import os
from collections import Counter
from collections.abc import Iterator

import pytest

BUDGET_SECONDS = 850.0
"""Of the quick tier. Two quiet cores give 960 in eight minutes."""
SHOWN = 40
"""How many files are shown, those that take most."""
_TICKS = os.sysconf("SC_CLK_TCK")


def of_family(pid: int) -> float:
    """The CPU seconds of a process, of those that descend from it, and of those of them that have ended."""
    ticks, families = 0, [pid]
    while families:
        entry = families.pop()
        try:
            with open(f"/proc/{entry}/stat") as stat:
                ticks += sum(map(int, stat.read().rpartition(")")[2].split()[11:15]))
            for thread in os.listdir(f"/proc/{entry}/task"):
                with open(f"/proc/{entry}/task/{thread}/children") as children:
                    families += map(int, children.read().split())
        except OSError:  # it has just ended, or this is no Linux
            continue
    return ticks / _TICKS


class Cpu:
    """A plugin of pytest: counts in the processes that run tests, adds up in the one that reports."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._of: Counter[str] = Counter()
        self._counted = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        if not self._counted:
            self._count("collection")
        result = yield
        file = item.nodeid.split("::", 1)[0]
        if nextitem is None or nextitem.nodeid.split("::", 1)[0] != file:
            self._count(file)
        return result

    def _count(self, name: str) -> None:
        now = of_family(os.getpid())
        self._of[name] += max(0.0, now - self._counted)  # a server that leaves the family takes its share along
        self._counted = now

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["cpu"] = dict(self._of)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self._of.update(getattr(node, "workeroutput", {}).get("cpu", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        total = sum(self._of.values())
        if len(self._of) <= SHOWN:
            return
        terminalreporter.section("CPU seconds, of the servers, too")
        for file, seconds in self._of.most_common(SHOWN):
            terminalreporter.write_line(f"{seconds:7.1f}  {file}")
        terminalreporter.write_line(f"{total:7.1f}  in all")
        if self._config.option.markexpr == "not long" and total > BUDGET_SECONDS:
            terminalreporter.write_line(
                f"The quick tier has a budget of {BUDGET_SECONDS:.0f}: see docs/development.md, “The budget”.", red=True
            )
