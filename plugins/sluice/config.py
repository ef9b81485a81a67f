"""The configuration of replications: `load` one prefix, or `survey` the folders.

One file a prefix in the folder `SLUICE_REPLICATIONS` (default `include/replications`; several with `:` between them,
of two files with one name that of the earlier folder counts), in one of

- `.yaml` or `.yml`: see docs/configuration.md; it may point at files of the next two kinds, which are then part of it
  and no replications of their own;
- `.properties`: the ReplicationAgent's `master.properties`;
- `.xml`: `xmlBlasterPlugins.xml`, which may hold several replications.

All mistakes of a file are reported at once, each with file, line, key, reason and remedy. A broken file stops only its
own replication.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice.configuration import sources
from sluice.configuration.build import build, prefix_of
from sluice.configuration.mistakes import ConfigError, Mistake, in_order
from sluice.configuration.model import Replication
from sluice.configuration.nodes import Node, suggestion
from sluice.errors import Terminal
from sluice.model.names import Prefix, prefix_meant
from sluice.paths import base


class UnknownPrefix(Terminal):
    """No file configures `prefix`; `known` lists those that are configured."""

    def __init__(self, prefix: str, prefixes: tuple[str, ...], paths: Iterable[Path], unread: tuple[Path, ...] = ()):
        self.known = prefixes
        also = f" No prefix was found in {', '.join(str(file) for file in unread)}." if unread else ""
        where = " or ".join(str(path) for path in paths)
        super().__init__(
            f"No replication {prefix!r} is configured in {where}; {suggestion(prefix, prefixes, 'prefixes')}."
            f"{also} Use one of these, or add a file for it."
        )


@dataclass(frozen=True)
class Survey:
    """The content of the folders of replication files."""

    replications: tuple[Replication, ...]
    """Those without a mistake, by prefix."""
    mistakes: tuple[Mistake, ...]
    broken: dict[str, tuple[Mistake, ...]]
    """The mistakes of each prefix that cannot be used."""
    unread: tuple[Path, ...]
    """Files without a recognizable prefix."""
    hidden: Mapping[Path, Path] = field(default_factory=dict)
    """Ignored files, each with the file of the same name in an earlier folder."""


def folders() -> tuple[Path, ...]:
    """The folders of the files: `SLUICE_REPLICATIONS`, else `include/replications` of the checkout or AIRFLOW_HOME."""
    configured = [part for part in os.environ.get("SLUICE_REPLICATIONS", "").split(os.pathsep) if part]
    chosen = [Path(part) for part in configured] or [base() / "include" / "replications"]
    return tuple(path.resolve() for path in chosen)


def load(prefix: str) -> Replication:
    """The replication `prefix`, in upper or lower case.

    Raises `ConfigError` if its file has mistakes, `UnknownPrefix` if no file configures it. Mistakes in other files do
    not matter.
    """
    return _of(survey(), prefix, folders())


def _of(survey: Survey, prefix: str, paths: Sequence[Path]) -> Replication:
    name_meant = prefix.strip().upper()
    for replication in survey.replications:
        if replication.prefix.name == name_meant:
            return replication
    if name_meant in survey.broken:
        raise ConfigError(survey.broken[name_meant])
    prefixes = (*(replication.prefix.name for replication in survey.replications), *survey.broken)
    raise UnknownPrefix(prefix, prefixes, paths, survey.unread)


def meant(text: str) -> str:
    """The configured prefix that a person means: see `prefix_meant`."""
    configured = survey()
    return prefix_meant(text, {*(one.prefix.name for one in configured.replications), *configured.broken})


def again(replication: Replication) -> Replication:
    """Loads the replication again from its folder. Raises as `load`."""
    own = replication.source.parent
    paths = folders()
    if own.resolve() not in paths:
        paths = (own,)
    return _of(survey(*paths), replication.prefix.name, paths)


def checked(file: Path, text: str) -> Replication:
    """The replication in the YAML `file` if it had this text. Raises `ConfigError`."""
    (reading,) = _readings(file, text.encode())
    if reading.replication is None or reading.mistakes:
        raise ConfigError(reading.mistakes)
    return reading.replication


def survey(*paths: Path) -> Survey:
    """All valid replications, and all mistakes, of the folders `paths` (default: `folders()`).

    Raises `ConfigError` if a folder is missing.
    """
    by_file = {file: _readings(file) for path in paths or folders() for file in _files(path)}
    parts = {os.path.abspath(part) for of_file in by_file.values() for reading in of_file for part in reading.points_at}
    named: dict[str, Path] = {}
    hidden: dict[Path, Path] = {}
    for file in by_file:
        if os.path.abspath(file) not in parts and named.setdefault(file.name, file) != file:
            hidden[file] = named[file.name]
    readings = [reading for file in named.values() for reading in by_file[file]]
    _refuse_twins(readings)
    _refuse_loops(readings)
    broken: dict[str, tuple[Mistake, ...]] = {}
    for reading in readings:
        if reading.mistakes and reading.prefix:
            broken[reading.prefix] = (*broken.get(reading.prefix, ()), *reading.mistakes)
    good = [reading.replication for reading in readings if reading.replication is not None and not reading.mistakes]
    return Survey(
        tuple(sorted(good, key=lambda replication: replication.prefix)),
        # Mistakes of a file as a whole are in all of its readings.
        in_order(mistake for reading in readings for mistake in reading.mistakes),
        broken,
        tuple(reading.file for reading in readings if reading.prefix is None),
        hidden,
    )


def _files(path: Path) -> list[Path]:
    try:
        return sorted(
            file for file in path.iterdir() if file.suffix in sources.SUFFIXES and not file.name.startswith(".")
        )
    except OSError as wrong:
        raise ConfigError(
            [Mistake(path, 0, "", f"cannot be listed: {wrong.strerror}", "create it or set SLUICE_REPLICATIONS")]
        ) from wrong


@dataclass
class _Reading:
    """One replication of one file, or the reason why there is none."""

    file: Path
    root: Node | None
    mistakes: list[Mistake]
    prefix: str | None
    """In upper case. Guessed from a file that could not be parsed."""
    points_at: tuple[Path, ...]
    replication: Replication | None = None


def _readings(file: Path, raw: bytes | None = None) -> list[_Reading]:
    """The replications of a file. `raw`: content to use instead of the file's."""
    mistakes: list[Mistake] = []
    roots = sources.roots(file, mistakes) if raw is None else sources.parsed(file, raw, mistakes)
    if not roots:
        guessed, targets = sources.guess(file)
        return [_Reading(file, None, mistakes, guessed, targets)]
    readings = [_Reading(file, root, list(mistakes), prefix_of(root), sources.pointed_at(root)) for root in roots]
    for reading in readings:
        assert reading.root is not None
        reading.replication = build(reading.root, reading.points_at, reading.mistakes)
    return readings


def _refuse_twins(readings: list[_Reading]) -> None:
    """Adds mistakes for a prefix in two files: neither is used."""
    claims: dict[str, list[tuple[_Reading, Node]]] = {}
    for reading in readings:
        if reading.root is not None and reading.prefix:
            claims.setdefault(reading.prefix, []).append((reading, reading.root.fields["prefix"]))
    for prefix, claimants in claims.items():
        for reading, node in claimants:
            others = [_claim(other, its) for other, its in claimants if other is not reading]
            if others:
                reading.mistakes.append(
                    node.mistake(f"{prefix} is also configured in {', '.join(others)}", "rename one of them")
                )


def _claim(reading: _Reading, node: Node) -> str:
    """Where a prefix is configured: a YAML that points at the file with the prefix counts, not that file."""
    return f"{node.file}:{node.line}" if node.file == reading.file else str(reading.file)


def _refuse_loops(readings: list[_Reading]) -> None:
    """Adds mistakes for cascades in a circle, in which a change would come back."""
    readings_of = {reading.replication.prefix: reading for reading in readings if reading.replication is not None}
    for reading in readings_of.values():
        replication = reading.replication
        assert replication is not None and reading.root is not None
        if not replication.master.cascade:
            continue
        node = reading.root.fields["master"].fields["cascade"]
        for prefix in replication.master.cascade:
            if prefix not in readings_of:
                near = suggestion(str(prefix), (str(other) for other in readings_of), "prefixes")
                reading.mistakes.append(node.mistake(f"passes on {prefix}, which is not configured here", near))
        back = {slave.conn_id: slave.name for slave in replication.slaves.values()}
        for source in _sources(replication, readings_of):
            if source.prefix == replication.prefix:
                reading.mistakes.append(
                    node.mistake("passes its own changes on in a circle", "take one prefix of the circle out")
                )
            elif source.master.conn_id in back:
                reading.mistakes.append(
                    node.mistake(
                        f"would bring changes of {source.prefix} back to {source.master.conn_id}, where they were "
                        f"made, as slave {back[source.master.conn_id]}",
                        f"take {source.prefix} or that slave out",
                    )
                )


def _sources(replication: Replication, readings_of: dict[Prefix, _Reading]) -> list[Replication]:
    """All replications whose changes this one forwards, directly or not; itself if they form a circle."""
    sources: dict[Prefix, Replication] = {}
    open_ends = list(replication.master.cascade)
    while open_ends:
        reading = readings_of.get(prefix := open_ends.pop())
        if reading is not None and reading.replication is not None and prefix not in sources:
            sources[prefix] = reading.replication
            open_ends.extend(reading.replication.master.cascade)
    return list(sources.values())
