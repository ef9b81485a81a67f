"""The configuration of one OpenLogReplicator, generated from that of the replication and checked against the keys of
1.9.0.

OpenLogReplicator refuses an unknown key. The keys here are those of version 1.9.0; later versions have others under the
same version number.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sluice.configuration.redo import RedoOptions
from sluice.redo.redo_thread import RedoThread

VERSION = "1.9.0"
HOST = "127.0.0.1"

FORMAT: Mapping[str, int | str] = {
    "type": "json",
    "column": 2,
    "db": 3,
    "message": 2,
    "rid": 1,
    "schema": 7,
    "scn-type": 3,
    "timestamp-all": 1,
    "timestamp": 0,
    "timestamp-tz": 0,
    "interval-dts": 0,
    "interval-ytm": 0,
    "xid": 1,
}
"""The format that the merge reads (docs/redo.md)."""
ARCHIVED_ONLY, DDL, INCOMPLETE, CHECKPOINTS = 1, 32, 1024, 4096
"""Flags: no online logs; texts of DDL; reports of transactions without their beginning; messages of checkpoints."""
ARCHIVE_DESTINATION, ARCHIVE_FORMAT = "/sluice", "%t_%s_%r.arc"
"""The path and names of archived logs for OpenLogReplicator, before `path-mapping`."""
POLL_US = 1_000_000

_KEYS: Mapping[str, frozenset[str]] = {
    "": frozenset(
        {"version", "dump-path", "dump-raw-data", "dump-redo-log", "log-level", "trace", "source", "target"}
    ),
    "source": frozenset(
        {"alias", "memory", "name", "reader", "flags", "state", "debug", "transaction-max-mb", "metrics", "format",
         "redo-read-sleep-us", "arch-read-sleep-us", "arch-read-tries", "redo-verify-delay-us", "refresh-interval-us",
         "arch", "filter"}
    ),
    "source.memory": frozenset(
        {"min-mb", "max-mb", "read-buffer-max-mb", "read-buffer-min-mb", "swap-mb", "swap-path",
         "unswap-buffer-min-mb", "write-buffer-max-mb", "write-buffer-min-mb"}
    ),
    "source.state": frozenset(
        {"type", "path", "interval-s", "interval-mb", "keep-checkpoints", "schema-force-interval"}
    ),
    "source.metrics": frozenset({"type", "bind", "tag-names"}),
    "source.reader": frozenset(
        {"disable-checks", "start-scn", "start-seq", "start-time-rel", "start-time", "type", "redo-copy-path",
         "db-timezone", "host-timezone", "log-timezone", "user", "password", "server", "redo-log", "path-mapping",
         "log-archive-format"}
    ),
    "source.format": frozenset(
        {"db", "attributes", "interval-dts", "interval-ytm", "message", "rid", "xid", "timestamp", "timestamp-tz",
         "timestamp-all", "char", "scn", "scn-type", "unknown", "schema", "column", "unknown-type", "flush-buffer",
         "type"}
    ),
    "source.filter": frozenset({"table", "skip-xid", "separator", "dump-xid"}),
    "source.filter.table": frozenset({"owner", "table", "key", "condition", "tag"}),
    "source.debug": frozenset({"stop-log-switches", "stop-checkpoints", "stop-transactions", "owner", "table"}),
    "target": frozenset({"alias", "source", "writer"}),
    "target.writer": frozenset(
        {"type", "poll-interval-us", "queue-size", "max-file-size", "timestamp-format", "output", "new-line",
         "append", "max-message-mb", "topic", "properties", "uri", "write-buffer-flush-size"}
    ),
}  # fmt: skip
"""The allowed keys of each section."""


def address(thread: RedoThread, options: RedoOptions) -> tuple[str, int]:
    """The address on which the program of a thread listens."""
    return HOST, options.first_port + thread.number


def metrics_address(thread: RedoThread, options: RedoOptions) -> tuple[str, int] | None:
    """The address of its metrics; None: it has none."""
    return (HOST, options.metrics_port + thread.number) if options.metrics_port is not None else None


def configuration(thread: RedoThread, seed: Mapping[str, Any], options: RedoOptions) -> dict[str, object]:
    """The configuration of the program of one redo thread, whose archived logs are in folders of a day.

    `seed`: the schema checkpoint with which capture begins, whose archive destination is `ARCHIVE_DESTINATION`.
    OpenLogReplicator refuses it with other owners than the seed's.
    """
    memory, metrics = options.memory_mb, metrics_address(thread, options)
    source: dict[str, object] = {
        "alias": "SOURCE",
        "name": seed["database"],
        "flags": ARCHIVED_ONLY | DDL | INCOMPLETE | CHECKPOINTS,
        "arch": "path",
        "arch-read-sleep-us": POLL_US,
        "memory": {"min-mb": min(64, memory), "max-mb": memory, "swap-path": str(thread.swap)},
        "state": {
            "type": "disk",
            "path": str(thread.state),
            "interval-s": options.checkpoint_seconds,
            "keep-checkpoints": 20,
        },
        "reader": {
            "type": "offline",
            "path-mapping": [f"{ARCHIVE_DESTINATION}/{seed['context']}/archivelog", str(thread.logs)],
            "host-timezone": options.host_timezone,
            # DATE and TIMESTAMP have no zone: they are not converted, and a slave has what the master shows.
            "db-timezone": "+00:00",
            "log-timezone": "+00:00",
        },
        "format": dict(FORMAT),
        "filter": {"table": [{"owner": owner, "table": ".*"} for owner in seed["users"]]},
    }
    if metrics is not None:
        source["metrics"] = {"type": "prometheus", "bind": f"{metrics[0]}:{metrics[1]}", "tag-names": "none"}
    host, port = address(thread, options)
    writer = {"type": "network", "uri": f"{host}:{port}", "queue-size": 65536}
    return {
        "version": VERSION,
        "log-level": 3,
        "source": [source],
        "target": [{"alias": "TARGET", "source": "SOURCE", "writer": writer}],
    }


def mistakes(values: Mapping[str, Any]) -> Iterator[str]:
    """What version 1.9.0 would refuse, one sentence each."""
    if values.get("version") != VERSION:
        yield f"version is {values.get('version')!r}, expected: {VERSION}"
    yield from _unknown("", values)
    for name in ("source", "target"):
        parts = values.get(name)
        if not isinstance(parts, list) or len(parts) != 1:
            yield f"{name} is not a list of one"
            continue
        yield from _within(name, parts[0])
    source = next(iter(values.get("source") or [{}]))
    for required in ("alias", "name", "reader", "format"):
        if required not in source:
            yield f"source has no {required}"


def _within(section: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown(section, values)
    for name, value in values.items():
        inner = f"{section}.{name}"
        if inner in _KEYS:
            for each in value if isinstance(value, list) else [value]:
                yield from _within(inner, each)


def _unknown(section: str, values: Mapping[str, Any]) -> Iterator[str]:
    for name in values:
        if name not in _KEYS[section]:
            yield f"{section or 'the top level'} does not know the key {name}"
