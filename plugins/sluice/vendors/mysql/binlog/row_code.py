"""Reads the rows of a table from events: Python code that is made once for each description of a table.

Made code reads a million values a second where a loop over the columns reads a few hundred thousand: runs of numbers
that cannot be NULL are one call of `struct`, and nothing is decided twice.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, str | None]
Rows = list[Any]
"""Rows as `Row`, or pairs of them for updates."""
Reader = Callable[[bytes, int, int], Rows]
"""Reads the rows between two places of an event. Raises `IndexError`, `ValueError`, `UnicodeDecodeError`."""


@dataclass(frozen=True)
class Cell:
    """How one column is read. Of `number`, `lines` one is given."""

    name: str
    """Of the slave's column; empty: the value is skipped."""
    nullable: bool
    number: str = ""
    """The format of `struct` for a number of fixed size."""
    shown: str = "str({0})"
    """The text of such a number, as an expression of it."""
    lines: Sequence[str] = ()
    """Code that reads a value from `b` at `p` into `{0}`, and moves `p` behind it. `{1}`: the column's number."""
    uses: Mapping[str, object] = field(default_factory=dict)
    """What the code calls, by its name."""


def reader(cells: Sequence[Cell], *, pairs: bool) -> Reader:
    """`pairs`: each row is there twice, before and after."""
    names: dict[str, object] = {"unpack": {}}
    image = _image(cells, names)
    lines = ["def rows(b, p, end):", "    made = []", "    add = made.append", "    while p < end:"]
    lines += [f"        {line}" for line in image]
    if pairs:
        lines.append(f"        before = {_row(cells)}")
        lines += [f"        {line}" for line in image]
        lines.append(f"        add((before, {_row(cells)}))")
    else:
        lines.append(f"        add({_row(cells)})")
    lines += ["    if p != end:", "        raise ValueError('a row ends behind its event')", "    return made"]
    # Of the master only names are in it, as literals that Python has written.
    exec(compile("\n".join(lines), "<rows>", "exec"), names)  # noqa: S102
    made: Any = names["rows"]
    return made  # type: ignore[no-any-return]


def _row(cells: Sequence[Cell]) -> str:
    values = []
    for index, cell in enumerate(cells):
        if cell.name:
            own = f"c{index}"
            values.append(f"{cell.name!r}: {cell.shown.format(own) if cell.number and not cell.nullable else own}")
    return "{" + ", ".join(values) + "}"


def _image(cells: Sequence[Cell], names: dict[str, object]) -> list[str]:
    """The code for one image of a row."""
    size = (len(cells) + 7) // 8
    code = [f"nulls = int.from_bytes(b[p:p + {size}], 'little')", f"p += {size}"] if size else []
    run: list[int] = []

    def flush() -> None:
        if not run:
            return
        packed = struct.Struct("<" + "".join(cells[index].number for index in run))
        name = f"u{run[0]}"
        names[name] = packed.unpack_from
        code.append(f"{''.join(f'c{index}, ' for index in run)}= {name}(b, p)")
        code.append(f"p += {packed.size}")
        run.clear()

    for index, cell in enumerate(cells):
        if cell.number and not cell.nullable:
            run.append(index)
            continue
        flush()
        names |= {f"{name}{index}": value for name, value in cell.uses.items()}
        if cell.number:
            packed = struct.Struct("<" + cell.number)
            names[f"u{index}"] = packed.unpack_from
            body = [
                f"c{index}, = u{index}(b, p)",
                f"p += {packed.size}",
                f"c{index} = {cell.shown.format(f'c{index}')}",
            ]
        else:
            body = [line.format(f"c{index}", index) for line in cell.lines]
        if cell.nullable:
            code += [f"if nulls & {1 << index}:", f"    c{index} = None", "else:", *(f"    {line}" for line in body)]
        else:
            code += body
    flush()
    return code
