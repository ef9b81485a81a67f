"""Net changes in tables beside the slave's own: canonical texts, which the merge takes from there in parts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from sluice.database.apply import Staged
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.oracle.column_types import SHORT
from sluice.vendors.oracle.session import OracleSession, native, quoted

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 2_000
"""Rows of a part."""
Row = dict[str, str | int | None]
_MARK = "\x01"
"""Stands before a text that is empty, which would be NULL in the stage, or begins so itself."""


@dataclass(frozen=True)
class StageTable:
    """One set of rows in a stage table."""

    place: str
    columns: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class OracleStaged(Staged):
    """Net changes in stage tables of the slave."""

    sets: Mapping[str, StageTable] = field(default_factory=dict)
    """The sets by the kinds of `NetChanges`."""


def parts_of(rows: "pa.Table") -> Iterator[list[Row]]:
    """The rows of a table in memory, some at a time."""
    for start in range(0, rows.num_rows, ROWS):
        yield rows.slice(start, ROWS).to_pylist()


def staged_parts(session: OracleSession, staged: StageTable) -> Iterator[list[Row]]:
    """The rows of a stage table, some at a time."""
    selected = ", ".join(map(quoted, staged.columns))
    text = f"SELECT {selected} FROM {staged.place} WHERE row_no > :above AND row_no <= :through ORDER BY row_no"
    for above in range(0, staged.rows, ROWS):
        rows = session.run(text, {"above": above, "through": above + ROWS})
        yield [dict(zip(staged.columns, map(_unmarked, row), strict=True)) for row in rows]


def put(connection: Session, changes: NetChanges, *, prefix: Prefix, epoch: int, number: str) -> OracleStaged:
    """Net changes into tables `<prefix>stage_<epoch>_<number>_<kind>`, replacing what is there. In autocommit."""
    session, sets = native(connection), {}
    for kind, rows in changes.by_kind.items():
        if rows.num_rows:
            name = f"{prefix.lower}stage_{epoch}_{number}_{kind}"
            _drop(session, _present(session, name))
            sets[kind] = _filled(session, quoted(name), rows)
    return OracleStaged(changes.table, changes.columns, changes.key, changes.changes, changes.compared, sets)


def drop(connection: Session, prefix: Prefix, *, below: int) -> int:
    """Drops the stage tables of epochs under `below`; how many."""
    session, begin = native(connection), f"{prefix.lower}stage_"
    pattern = re.compile(re.escape(begin) + r"(\d+)_")
    names = [name for name in _present(session, begin) if (match := pattern.match(name)) and int(match[1]) < below]
    _drop(session, names)
    return len(names)


def _present(session: OracleSession, begin: str) -> list[str]:
    """The stage tables whose names begin so."""
    text = (
        "SELECT t.TABLE_NAME FROM ALL_TABLES t WHERE t.OWNER = :owner "
        "AND SUBSTR(t.TABLE_NAME, 1, LENGTH(:beginning)) = :beginning"
    )
    return [name for (name,) in session.run(text, {"owner": session.schema, "beginning": begin})]


def _drop(session: OracleSession, names: Sequence[str]) -> None:
    for name in names:
        session.run(f"DROP TABLE {quoted(name)} PURGE")


def _filled(session: OracleSession, place: str, rows: "pa.Table") -> StageTable:
    columns = tuple(rows.column_names)
    lines = ["row_no NUMBER(19) NOT NULL PRIMARY KEY"]
    for name in columns:
        if name == "copies":
            lines.append(f"{quoted(name)} NUMBER(19)")
        else:
            longest = pc.max(pc.utf8_length(rows.column(name))).as_py() or 0
            lines.append(f"{quoted(name)} {f'VARCHAR2({SHORT} CHAR)' if longest < SHORT else 'CLOB'}")
    session.run(f"CREATE TABLE {place} ({', '.join(lines)})")
    names = ", ".join(map(quoted, columns))
    text = f"INSERT INTO {place} (row_no, {names}) VALUES (:row_no, {', '.join(f':{name}' for name in columns)})"
    done = 0
    with session.transaction():
        for part in parts_of(rows):
            marked = ({name: _marked(value) for name, value in row.items()} for row in part)
            session.run_many(text, [{"row_no": done + at, **row} for at, row in enumerate(marked, start=1)])
            done += len(part)
    return StageTable(place, columns, rows.num_rows)


def _marked(value: str | int | None) -> str | int | None:
    return _MARK + value if isinstance(value, str) and (not value or value.startswith(_MARK)) else value


def _unmarked(value: str | int | None) -> str | int | None:
    return value.removeprefix(_MARK) if isinstance(value, str) else value
