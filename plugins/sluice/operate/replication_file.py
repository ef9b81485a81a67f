"""Drafts and writes the file of a replication for `add` and the monitor, and removes slaves from it for `remove`."""

import json
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluice import config, whole_files
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import Replication
from sluice.configuration.sources import YAML
from sluice.errors import Terminal
from sluice.model.names import Prefix
from sluice.model.vendors import BINLOG, FIRST, LOGGED_MASTERS
from sluice.paths import PROGRAM, home

HEAD = """\
# The replication {prefix}, made by {program} add or the monitor. Every key is in docs/configuration.md.
# Passwords are not here: master and slaves name Airflow connections.
"""
TAIL = """\
# An initial update by files writes only where this allows; where: true lets its form choose rows by SQL.
# initial: {locations: [/mnt/disk], where: false}"""
SLAVES = re.compile(r"^slaves:[ \t]*(#.*)?\n((?:[ \t]+.*\n|[ \t]*\n|[ \t]*#.*\n)*)", re.MULTILINE)


def slave_lines_missing(file: object, remedy: str) -> Terminal:
    """The file has another form than `add` writes."""
    return Terminal(
        f"{file}: its slaves are not one a line below a line 'slaves:', so that no program should change it. {remedy}",
        code="slave-lines-missing",
    )


Entry = Mapping[str, str]
"""A database in the file: `conn_id`, and `vendor` unless that is the usual one."""
Entries = Mapping[str, Entry]
"""Those of slaves, by name."""


def entry(conn_id: str, vendor: str, usual: str = FIRST) -> Entry:
    """`usual`: the vendor of a database of which the file says none; for a slave the master's."""
    return {"conn_id": conn_id, **({} if vendor == usual else {"vendor": vendor})}


def of_master(conn_id: str, vendor: str, location: str = "") -> Entry:
    """The entry of a master. `location`: where the log is recorded, for a vendor whose servers log their changes."""
    logged = {"capture": BINLOG, "location": location} if vendor in LOGGED_MASTERS else {}
    return {**entry(conn_id, vendor), **logged}


def usual_location(prefix: Prefix) -> str:
    """The folder for a recorded log that nobody named: in the state folder, which all machines with jobs share."""
    return str(home() / "streams" / prefix.lower.rstrip("_"))


def named(name: str, folder: Path) -> tuple[Prefix, Path]:
    """The prefix and the file of a replication: SHOP, shop_ and SHOP_ are the same. Raises `InvalidName`."""
    stem = name.rstrip("_").upper()
    return Prefix(f"{stem}_"), folder / f"{stem}.yaml"


def existing(prefix: Prefix, file: Path, folder: Path) -> Replication | None:
    """The replication in its file; None if there is none. Raises `ConfigError`, `file-in-use`."""
    if not folder.is_dir():
        return None
    survey = config.survey(folder)
    if prefix.name in survey.broken:
        raise ConfigError(survey.broken[prefix.name])
    for one in survey.replications:
        if one.prefix == prefix and one.source.name != file.name:
            raise Terminal(
                f"{prefix} is configured in {one.source}. Change it there, or choose another name.", code="file-in-use"
            )
        if one.prefix == prefix:
            return one
    if file.exists():
        raise Terminal(
            f"{file} is there already, and holds no replication {prefix}. Rename it, or choose another name.",
            code="file-in-use",
        )
    return None


def drafted(
    prefix: Prefix,
    file: Path,
    existing_one: Replication | None,
    master: Entry,
    slaves: Entries,
    patterns: Sequence[str],
    creators: Sequence[str] = (),
) -> tuple[Replication, str]:
    """The new replication, or the existing one with more slaves, and the text of its file. Raises `ConfigError`,
    `slave-lines-missing`."""
    if existing_one is not None:
        text = with_slaves(file, file.read_text(encoding="utf-8"), slaves)
    else:
        text = written(str(prefix), master, slaves, patterns, creators)
    return config.checked(file, text), text


def put(file: Path, text: str) -> None:
    """Writes the file atomically, since applies and DAGs read it meanwhile."""
    path = file.resolve()
    whole_files.write(path, text, mode=stat.S_IMODE(path.stat().st_mode) if path.exists() else None)


def taken_out(file: Path) -> str:
    """Renames the file so that it is not read any more; returns a sentence. A file of xmlBlaster stays: it may hold
    other replications."""
    if file.suffix not in YAML:
        return f"Take it out of {file} by hand."
    file.rename(file.with_name(file.name + ".removed"))
    return f"{file} is {file.name}.removed now"


def written(prefix: str, master: Entry, slaves: Entries, tables: Sequence[str], creators: Sequence[str] = ()) -> str:
    """The text of a new file. `creators`: roles that will make tables."""
    made_by = f", creators: [{', '.join(map(_text, creators))}]" if creators else ""
    lines = [
        HEAD.format(prefix=prefix, program=PROGRAM),
        f"prefix: {prefix}\n",
        f"master: {{{_entry(master)}{made_by}}}\n",
        "slaves:",
    ]
    lines += [_slave(name, entry) for name, entry in slaves.items()]
    lines += ["", "tables:", *(f"  {_text(pattern)}: {{}}" for pattern in tables), "", TAIL]
    return "\n".join(lines) + "\n"


def with_slaves(file: object, text: str, slaves: Entries) -> str:
    """The text with more slaves. Raises `slave-lines-missing`."""
    added = "".join(_slave(name, entry) + "\n" for name, entry in slaves.items())
    whole = text if text.endswith("\n") else text + "\n"
    matched = SLAVES.search(whole)
    if matched is None or not matched.group(2).strip():
        raise slave_lines_missing(file, f"Add {added.strip()!r} by hand, then start again.")
    kept = matched.group(2).rstrip() + "\n"
    end = matched.start(2) + len(kept)
    return whole[: matched.start(2)] + kept + added + whole[end:]


def without_slave(file: object, text: str, name: str) -> str:
    """The text without a slave. Raises `slave-lines-missing`."""
    matched = SLAVES.search(text)
    lines = matched.group(2).splitlines(keepends=True) if matched else []
    keys = [re.match(r"^([ \t]+)(?:\"([^\"]*)\"|'([^']*)'|([^\s:#]+))[ \t]*:", line) for line in lines]
    matches = [number for number, key in enumerate(keys) if key and name in key.groups()[1:]]
    if matched is None or len(matches) != 1:
        raise slave_lines_missing(file, f"Take the slave {name} out by hand.")
    first = keys[matches[0]]
    assert first is not None
    end = matches[0] + 1
    while end < len(lines) and len(lines[end]) - len(lines[end].lstrip(" \t")) > len(first.group(1)):
        end += 1
    return text[: matched.start(2)] + "".join(lines[: matches[0]] + lines[end:]) + text[matched.end(2) :]


def _slave(name: str, of_slave: Entry) -> str:
    return f"  {_text(name)}: {{{_entry(of_slave)}}}"


def _entry(one: Entry) -> str:
    return ", ".join(f"{key}: {_text(value)}" for key, value in one.items())


def _text(value: str) -> str:
    """A YAML scalar, in double quotes if needed."""
    plain = re.fullmatch(r"[A-Za-z_][\w.]*(\.\*)?", value) and value.lower() not in (
        "true", "false", "yes", "no", "on", "off", "null", "y", "n",
    )  # fmt: skip
    # Some unprintable characters end a line in YAML.
    return value if plain else json.dumps(value, ensure_ascii=not value.isprintable())
