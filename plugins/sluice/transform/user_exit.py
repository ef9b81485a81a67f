"""User exits: functions that transform rows, named in the configuration by `exit: package.module:function`.

Sluice calls one with a `pyarrow.Table`. It has the slave's columns after `where` and `columns`, as texts, NULL as
null, and two more:

| column | holds |
|---|---|
| `sluice_row` | the number of the row in this call |
| `sluice_action` | INSERT, UPDATE or DELETE of the row before or after a change; READ for loads and comparisons |

The function returns such a table with the slave's columns as texts and `sluice_row`, without the rows that the slave
must not have. It must not change the key, and must always return the same for the same row. With `extra_key` it may
return several rows for one, which have its `sluice_row` and differ in those columns.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.model.logical_type import Kind, LogicalType
from sluice.model.mask import quoted_text
from sluice.transform.engine import TEXT
from sluice.user_function import imported, in_one_line

ROW, ACTION = "sluice_row", "sluice_action"
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]*)$"
"""Its texts in every database: two texts of one number would be two keys."""
READ = "READ"
"""The action of rows that are loaded or compared."""


class ExitRefused(Exception):
    """A call failed, or its result cannot be used; the text gives the reason in one line."""

    def __init__(self, reason: str, raised: BaseException | None = None):
        super().__init__(reason)
        self.kind = f"{type(raised).__name__}, whose text is not shown" if raised is not None else reason
        """The reason without the text of the function's error, which may show values."""


class UserExit:
    """One function, imported in this process; a copy in another process imports it at its first call."""

    def __init__(self, name: str, extra_key: Mapping[str, LogicalType] = MappingProxyType({})):
        """`extra_key`: the types of the columns that tell several rows apart. Raises `FunctionMissing`."""
        self.name = name
        self.extra_key = dict(extra_key)
        self._function: Callable[..., object] | None = imported(name)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_function": None}

    def called(
        self, columns: Mapping[str, pa.Array], actions: pa.Array, key: Sequence[str]
    ) -> tuple[npt.NDArray[np.int64], dict[str, pa.Array]]:
        """For each row of the answer the place of that which it was made of, and its columns. Raises `ExitRefused`."""
        numbers = pa.array(range(len(actions)), pa.int64())
        answer: object
        try:
            self._function = self._function or imported(self.name)
            answer = self._function(pa.table({**columns, ROW: numbers, ACTION: actions}))
        except (Exception, SystemExit) as error:
            raise ExitRefused(quoted_text(in_one_line(error)), error) from error
        if not isinstance(answer, pa.Table):
            raise ExitRefused(f"it gives {type(answer).__name__}, and not a pyarrow.Table")
        places, made = _checked(answer, columns, len(actions), key)
        _expect_distinct(places, made, self.extra_key)
        return places, made


def _checked(
    answer: pa.Table, given: Mapping[str, pa.Array], count: int, key: Sequence[str]
) -> tuple[npt.NDArray[np.int64], dict[str, pa.Array]]:
    names = answer.column_names
    if lacking := [name for name in (*given, ROW) if names.count(name) != 1]:
        raise ExitRefused(f"its answer has not exactly one column {', '.join(lacking)}")
    if more := [name for name in names if name not in given and name not in (ROW, ACTION)]:
        raise ExitRefused(
            f"its answer has {', '.join(more)}, which is no column of the slave's table: name it under columns, e.g. "
            "with constant: null"
        )
    numbers = answer.column(ROW)
    if not pa.types.is_integer(numbers.type) or numbers.null_count:
        raise ExitRefused(f"{ROW} of its answer are not the numbers that it was given")
    places = np.asarray(numbers.combine_chunks().cast(pa.int64()))
    if len(places) and not 0 <= places.min() <= places.max() < count:
        raise ExitRefused(f"{ROW} of its answer are not numbers that it was given")
    columns = {name: _text(name, answer.column(name)) for name in given}
    for name in key:
        was = given[name].take(pa.array(places))
        if not columns[name].equals(was):
            raise ExitRefused(f"it changes {name}, which is part of the key: by it the slave's rows are found")
    return places, columns


def _expect_distinct(
    places: npt.NDArray[np.int64], columns: Mapping[str, pa.Array], extra_key: Mapping[str, LogicalType]
) -> None:
    """Raises `ExitRefused` if two rows of the answer would have the same key, or a key that no table can have."""
    for name, kind in extra_key.items():
        if columns[name].null_count:
            raise ExitRefused(f"{name} of its answer is null, and is part of the key (extra_key)")
        wrong = kind.kind is Kind.INTEGER and not pc.all(pc.match_substring_regex(columns[name], WHOLE_NUMBER)).as_py()
        if wrong and len(places):
            raise ExitRefused(f"{name} of its answer is not everywhere a whole number, written as 7 or -7")
    apart = codes(places, [columns[name] for name in extra_key])
    if len(np.unique(apart)) == len(places):
        return
    if not extra_key:
        raise ExitRefused(f"{ROW} of its answer is twice the same number: several rows of one need extra_key")
    raise ExitRefused(f"its answer has two rows with the same {', '.join(extra_key)} (extra_key) for one row")


def codes(numbers: npt.NDArray[np.int64], columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """A number for each row, the same where its number and its texts are; in the order of `numbers`."""
    for column in columns:
        encoded = column.dictionary_encode()
        _, numbers = np.unique(
            numbers * max(len(encoded.dictionary), 1) + np.asarray(encoded.indices), return_inverse=True
        )
    return numbers


def _text(name: str, column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    kind = whole.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    textual = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(check(kind) for check in textual):
        raise ExitRefused(f"{name} of its answer is {whole.type}, and must be text: cast it to pyarrow.string()")
    texts = whole.cast(TEXT)
    if pc.any(pc.match_substring(texts, "\x00")).as_py():
        raise ExitRefused(f"{name} of its answer holds the character NUL, which no database stores")
    return texts
