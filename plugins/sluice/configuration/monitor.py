"""From which values on the monitor shows a slave yellow or red."""

from dataclasses import dataclass

from sluice.configuration import option
from sluice.configuration.nodes import Section


@dataclass(frozen=True)
class MonitorOptions:
    """Thresholds of a replication: at the first of two the monitor warns, at the second it is red."""

    lag_warning: float = option.seconds(60.0, 0, 1e9)
    """Seconds by which a slave is behind."""
    lag_critical: float = option.seconds(600.0, 0, 1e9)
    queue_warning: int = option.integer(10_000_000, 1, 10**15)
    """Changes in ITEMS; housekeeping deletes what all slaves have every ten minutes."""
    queue_critical: int = option.integer(100_000_000, 1, 10**15)


def monitor(section: Section) -> MonitorOptions:
    """From the lines under `monitor`."""
    found, node = option.read(section, "monitor", MonitorOptions), section.get("monitor")
    thresholds = (
        ("lag", found.lag_warning, found.lag_critical),
        ("queue", found.queue_warning, found.queue_critical),
    )
    for name, low, high in thresholds:
        if low > high and node is not None:
            what = f"{name}_warning {low:g} is above {name}_critical {high:g}"
            section.mistakes.append(
                node.mistake(what, f"write a {name}_critical of {low:g} or more, or a lower warning")
            )
    return found
