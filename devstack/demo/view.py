"""The view of a running demo: a live view on a terminal, lines elsewhere."""

import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from devstack.demo.events import Event, Events
from devstack.demo.observer import Observation, TableProgress
from sluice.cli.initial_update import RunState

COLORS = {"NORMAL": "green", "TRANSITION": "yellow", "INITIAL": "yellow", "INCONSISTENT": "red"}
EVENT_COLORS = {"info": "", "good": "green", "bad": "bold red", "kill": "bold magenta"}
SHOWN_TABLES, SHOWN_EVENTS = 6, 8


@dataclass(frozen=True)
class SlavePicture:
    """A slave in the view. Lags are in seconds, rates are per second."""

    name: str
    observed: Observation
    run: RunState
    lag: float | None
    lag_p95: float | None
    change_rate: float
    row_rate: float


@dataclass(frozen=True)
class Picture:
    """The content of the view at one moment."""

    stage: str
    elapsed: float
    captured_rate: float | None
    """Row changes a second that the master captures, or None before the capture has begun."""
    memory: int
    """In bytes."""
    slaves: Sequence[SlavePicture] = ()
    events: Sequence[Event] = ()
    remaining: float | None = None
    """Seconds until the traffic stops, or None before that is known."""


def render(picture: Picture) -> RenderableType:
    """Returns the live view."""
    head = Text.assemble((picture.stage, "bold"), f"   {clock(picture.elapsed)}")
    if picture.remaining is not None:
        head.append(f"   traffic continues for {picture.remaining:.0f} s")
    if picture.captured_rate is not None:
        head.append(f"   master {picture.captured_rate:,.0f} changes/s")
    if picture.memory:
        head.append(f"   memory {size(picture.memory)}")
    parts: list[RenderableType] = [head]
    parts += [_slave(slave) for slave in picture.slaves]
    if picture.events:
        parts.append(Text("\n").join(_event(event) for event in picture.events[-SHOWN_EVENTS:]))
    return Panel(Group(*parts), title="Sluice demo", title_align="left", border_style="cyan")


USUAL = re.compile(r"^Initial update \S+ is (being prepared|loading)(, )?")
"""What the state and the task say as well."""


def line(picture: Picture) -> str:
    """Returns the same in one line."""
    parts = [f"[{picture.elapsed:6.1f} s] {picture.stage}"]
    if picture.captured_rate is not None:
        parts.append(f"master {picture.captured_rate:,.0f} changes/s")
    for slave in picture.slaves:
        observed = slave.observed
        words = [f"{slave.name} {observed.state}"]
        if slave.run.task:
            words.append(f"task {slave.run.task}")
        if observed.blocks and observed.state != "NORMAL":
            words.append(
                f"blocks {observed.stored}/{observed.blocks}, {observed.rows:,} rows ({slave.row_rate:,.0f}/s)"
            )
        if slave.lag is not None:
            words.append(f"lag {seconds(slave.lag)}, applies {slave.change_rate:,.0f} changes/s")
        words += [f"gate closed: {closure}" for closure in observed.closures]
        if observed.state != "NORMAL" and (message := USUAL.sub("", observed.message)):
            words.append(message)
        parts.append(", ".join(words))
    return "; ".join(parts)


def event_line(event: Event) -> str:
    return f"[{event.at:6.1f} s] {event.text}"


def seconds(value: float | None) -> str:
    """Returns a duration in ms or s."""
    if value is None:
        return "–"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def size(value: float) -> str:
    """Returns a number of bytes in GB or MB."""
    return f"{value / 2**30:.2f} GB" if value >= 2**30 else f"{value / 2**20:.0f} MB"


def clock(value: float) -> str:
    return f"{int(value) // 60:02}:{int(value) % 60:02}"


def _slave(slave: SlavePicture) -> RenderableType:
    observed, run = slave.observed, slave.run
    state = "CATCHING_UP" if observed.catching_up else observed.state
    head = Text.assemble((f"\n{slave.name} ", "bold"), (state, f"bold {COLORS.get(observed.state, 'white')}"))
    head.append(f"   lag {seconds(slave.lag)} (p95 {seconds(slave.lag_p95)})   {slave.change_rate:,.0f} changes/s")
    if not observed.reachable:
        head.append("   not reachable", "bold red")
    parts: list[RenderableType] = [head]
    words = []
    if run.state:
        words.append(f"initial_update {run.state}" + (f": {run.task}" if run.task else ""))
    if run.apply:
        words.append(f"cdc_apply {run.apply}")
    if not run.answering:
        words.append("Airflow does not answer")
    if words:
        parts.append(Text("  " + "   ".join(words), "dim"))
    parts += [Text(f"  gate closed: {closure}", "yellow") for closure in observed.closures]
    if observed.message:
        parts.append(Text(f"  {observed.message}", "yellow"))
    if observed.blocks and observed.state != "NORMAL":
        parts.append(_load(observed.tables, observed.stored, observed.blocks, observed.rows, slave.row_rate))
    return Group(*parts)


def _load(tables: Sequence[TableProgress], stored: int, blocks: int, rows: int, rate: float) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "right"):
        grid.add_column(justify=justify, no_wrap=True)
    grid.add_row(
        Text("  all tables", "bold"), _bar(stored, blocks), f"{stored}/{blocks} blocks", f"{rows:,} rows, {rate:,.0f}/s"
    )
    for table in [*tables][:SHOWN_TABLES]:
        name = table.name if len(table.name) <= 40 else table.name[:39] + "…"
        grid.add_row(
            Text(f"  {name}"), _bar(table.stored, table.blocks), f"{table.stored}/{table.blocks}", f"{table.rows:,}"
        )
    if len(tables) > SHOWN_TABLES:
        done = sum(table.stored == table.blocks for table in tables)
        grid.add_row(Text(f"  … {len(tables)} tables, {done} of them done", "dim"))
    return grid


def _bar(done: int, total: int) -> ProgressBar:
    return ProgressBar(total=max(total, 1), completed=done, width=20)


def _event(event: Event) -> Text:
    return Text(f"{clock(event.at)}  {event.text}", EVENT_COLORS.get(event.kind, ""))


# The output of a running demo: a live view on a terminal, lines elsewhere.

LINE_INTERVAL = 3.0
UNCHANGED_INTERVAL = 15.0
"""Seconds after which a line is printed that says what the last one did."""
WIDTH = 130
"""Columns of the report without a terminal."""


class Screen:
    """A context in which pictures are shown. `picture` returns the current one."""

    def __init__(self, picture: Callable[[], Picture], plain: bool = False) -> None:
        self.console = Console()
        if not self.console.is_terminal and "COLUMNS" not in os.environ:
            self.console = Console(width=WIDTH)
        self.plain = plain or not self.console.is_terminal
        self.events = Events(self._say if self.plain else None)
        self._picture = picture
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._live: Live | None = None
        self._printer: threading.Thread | None = None

    def __enter__(self) -> "Screen":
        if self.plain:
            self._printer = threading.Thread(target=self._print_lines, name="screen", daemon=True)
            self._printer.start()
        else:
            self._live = Live(
                get_renderable=lambda: render(self._picture()),
                console=self.console,
                refresh_per_second=4,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        if self._printer is not None:
            self._printer.join(5)
        if self._live is not None:
            self._live.stop()

    def _print_lines(self) -> None:
        last, at = "", 0.0
        while not self._leaving.wait(LINE_INTERVAL):
            picture = self._picture()
            content = line(replace(picture, elapsed=0.0))
            if content != last or picture.elapsed >= at + UNCHANGED_INTERVAL:
                self._write(line(picture))
                last, at = content, picture.elapsed

    def _say(self, event: Event) -> None:
        self._write(event_line(event))

    def _write(self, text: str) -> None:
        with self._lock:
            print(text, flush=True)
