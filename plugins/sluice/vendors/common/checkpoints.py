"""A digest of CHECKPOINT as the name of a moment: a server that shares no snapshots shows the same rows to each
transaction that begins while this digest does not change."""

import hashlib
import json
from collections.abc import Callable, Iterable

COLUMNS = "slave, epoch, position, target, slice_key, changes, tables"


def digest(names: Iterable[str], rows: Callable[[str], Iterable[tuple[object, ...]]]) -> str:
    """A digest of the tables CHECKPOINT, whose `names` are sorted; `rows`: the `COLUMNS` of each."""
    tables = [[name, sorted(map(str, rows(name)))] for name in names]
    return hashlib.sha256(json.dumps(tables).encode()).hexdigest()
