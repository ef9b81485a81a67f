"""The output of a running demo: a live view on a terminal, lines elsewhere."""

import os
import threading
from collections.abc import Callable

from rich.console import Console
from rich.live import Live

from devstack.demo.events import Event, Events
from devstack.demo.view import Picture, event_line, line, render

LINE_INTERVAL = 3.0
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
        while not self._leaving.wait(LINE_INTERVAL):
            self._write(line(self._picture()))

    def _say(self, event: Event) -> None:
        self._write(event_line(event))

    def _write(self, text: str) -> None:
        with self._lock:
            print(text, flush=True)
