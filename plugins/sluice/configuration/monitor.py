"""From which values on the monitor shows a slave yellow or red."""

from dataclasses import dataclass

from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Section


@dataclass(frozen=True)
class MonitorOptions:
    """Thresholds of a replication: at the first of two the monitor warns, at the second it is red."""

    lag_warning: float = 60.0
    """Seconds by which a slave is behind."""
    lag_critical: float = 600.0
    queue_warning: int = 10_000_000
    """Changes in ITEMS; housekeeping deletes what all slaves have every ten minutes."""
    queue_critical: int = 100_000_000


def monitor(section: Section, mistakes: list[Mistake]) -> MonitorOptions:
    """From the lines under `monitor`."""
    node, default = section.get("monitor"), MonitorOptions()
    if node is None:
        return default
    options = Section(node, mistakes)
    lag = options.number("lag_warning", default.lag_warning, 0, 1e9, "seconds")
    lag_critical = options.number("lag_critical", default.lag_critical, 0, 1e9, "seconds")
    queue = options.integer("queue_warning", default.queue_warning, 1, 10**15)
    queue_critical = options.integer("queue_critical", default.queue_critical, 1, 10**15)
    options.finish()
    assert lag is not None and lag_critical is not None and queue is not None and queue_critical is not None
    for name, low, high in (("lag", lag, lag_critical), ("queue", queue, queue_critical)):
        if low > high:
            what = f"{name}_warning {low:g} is above {name}_critical {high:g}"
            mistakes.append(node.mistake(what, f"write a {name}_critical of {low:g} or more, or a lower warning"))
    return MonitorOptions(lag, lag_critical, queue, queue_critical)
