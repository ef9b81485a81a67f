"""Rows into a table by LOAD DATA LOCAL, of which each warning is an error: the server would clip values without one."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.csv as pa_csv

from sluice.database.conflicts import ValueUnfit
from sluice.model.names import TableName
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import MySQLSession

_FORMAT = (
    "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n'"
)
_WRITING = pa_csv.WriteOptions(include_header=False, quoting_style="all_valid", null_string="NULL")
_ROWS_A_PIECE = 20_000


def load(
    session: MySQLSession,
    table: TableName,
    place: str,
    columns: Sequence[ColumnTexts],
    pieces: Iterable[bytes | memoryview],
) -> int:
    """Canonical texts as CSV, with the word NULL and without a header, into the columns of `place`; how many rows.

    In a transaction that is rolled back where this raises `ValueUnfit`. `table`: for messages.
    """
    into, sets = [], []
    for number, column in enumerate(columns):
        into.append(column.quoted if column.plain else f"@v{number}")
        if not column.plain:
            sets.append(f"{column.quoted} = {column.value(f'@v{number}')}")
    statement = f"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {place} {_FORMAT} ({', '.join(into)})"
    if sets:
        statement += f" SET {', '.join(sets)}"
    rows, wrong = session.load(statement, pieces)
    if wrong:
        raise ValueUnfit(table, "; ".join(session.warnings()) or "the server skipped it")
    return rows


def pieces_of(rows: "pa.Table") -> Iterable[bytes]:
    """Columns of texts as CSV."""
    for start in range(0, rows.num_rows, _ROWS_A_PIECE):
        sink = pa.BufferOutputStream()
        pa_csv.write_csv(rows.slice(start, _ROWS_A_PIECE), sink, _WRITING)
        yield sink.getvalue().to_pybytes()
