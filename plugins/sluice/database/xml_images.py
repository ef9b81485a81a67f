"""The XML of ITEMS (`sluice.database.row_images.RowImageCodec`): of many rows at once, in Arrow kernels.

Exact for everything that `sluice.model.content` reads. Rows are cut at `</col>`; every piece must
then begin with its column's own markup, which also proves that the row has the shape of the
others. Pieces in CDATA or base64 are taken apart where they stand; a row whose CDATA holds
`</col>` goes through the reference reader.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.items import one_array
from sluice.database.row_images import MixedShapes
from sluice.model import change
from sluice.model import content as reference
from sluice.model.change import RowChange
from sluice.model.names import TableName
from sluice.model.table_definition import parse as definition
from sluice.model.table_definition import parse_bound as bound

__all__ = ["bound", "changes", "columns", "definition", "is_partial", "is_plain", "overlay", "row", "written"]

TEXT = pa.large_string()
_UNCHECKED = pc.CastOptions(TEXT, allow_invalid_utf8=True)
_END = "</col>"
_PROTECTED = r"[<&\x00-\x1f\x7f-\x{9f}]|\]\]>"
"""The characters of a value that is not written as it is (see `sluice.model.content.format_column`)."""
_CDATA = "<![CDATA["
FEW = 64
"""The number of rows up to which the reference reader is faster: each kernel costs some microseconds."""
_CHANGES = 500
"""The number of rows that are Python objects at the same time."""
_PIECES = 8_000_000
"""The number of pieces in a step: it limits memory, and keeps list offsets of wide tables within 32 bits."""


def row(content: str) -> dict[str, str | None]:
    """One row. Raises `malformed-content`."""
    return dict(reference.parse(content))


def is_partial(content: str) -> bool:
    """Whether columns of it are unchanged."""
    return reference.is_partial(content)


def changes(items: pa.Table, keys: Mapping[TableName, Sequence[str]]) -> Iterator[RowChange]:
    """Items that change rows, one by one. Raises `malformed-content`, `KeyError` for a key column that a row lacks."""
    for batch in items.to_batches(max_chunksize=_CHANGES):
        for item in batch.to_pylist():
            yield change.of(item, keys[TableName(item["schema"], item["table"])])


def columns(contents: pa.Array | pa.ChunkedArray, names: Sequence[str]) -> list[pa.Array]:
    """The values of each of `names` (the columns of every row, in order) as large_string arrays.

    `contents`: a (chunked) array of large_string without nulls. Raises `MixedShapes`,
    `malformed-content`.
    """
    whole = one_array(contents)
    if not names or not len(whole):
        return [pa.nulls(len(whole), TEXT) for _ in names]
    if len(whole) <= FEW:
        rows = [_reference_row(text, names) for text in whole.to_pylist()]
        return [pa.array(values, TEXT) for values in zip(*rows, strict=True)]
    step = max(1, _PIECES // (len(names) + 1))
    parts = [_columns(whole.slice(at, step), names) for at in range(0, len(whole), step)]
    return [_concat([part[number] for part in parts]) for number in range(len(names))]


def overlay(
    values: Sequence[pa.Array], names: Sequence[str], oldcontents: pa.Array | pa.ChunkedArray, skip: Sequence[str] = ()
) -> list[pa.Array]:
    """Old images: `values` (one array a column), overlaid with the columns each OLDCONTENT names.

    A column that none of them names comes back as the very same array, and so do those in `skip`. Raises `MixedShapes`
    if one leaves columns out that nobody knows.
    """
    whole = one_array(oldcontents)
    if not len(whole):
        return list(values)
    # Mostly none: a value in CDATA may look like it.
    suspects = whole.filter(pc.match_substring(whole, reference.UNCHANGED))
    if any(reference.is_partial(text) for text in suspects.to_pylist()):
        # What it leaves out is not as it is now: nobody knows it.
        raise MixedShapes(names)
    if len(whole) <= FEW:
        olds = [dict(reference.parse(text)) for text in whole.to_pylist()]
        named = {name for old in olds for name in old}.difference(skip)
        return [
            pa.array([old.get(name, now) for old, now in zip(olds, column.to_pylist(), strict=True)], TEXT)
            if name in named
            else column
            for name, column in zip(names, values, strict=True)
        ]
    alike = [name for name, _ in reference.parse(whole[0].as_py())]
    if alike:
        # Mostly all of them name the same columns.
        with suppress(MixedShapes):
            by_name = dict(zip(alike, columns(whole, alike), strict=True))
            pairs = zip(names, values, strict=True)
            return [by_name[name] if name in by_name and name not in skip else column for name, column in pairs]
    return _overlaid_by_pieces(values, names, whole, skip)


def _overlaid_by_pieces(
    values: Sequence[pa.Array], names: Sequence[str], whole: pa.Array, skip: Sequence[str]
) -> list[pa.Array]:
    """Old images of texts that name different columns: each piece is looked at for the column whose it is."""
    pieces = pc.split_pattern(whole, _END)
    flat, rows = pieces.flatten(), np.asarray(pc.list_parent_indices(pieces))
    lengths = np.asarray(pc.list_value_length(pieces))
    found = np.zeros(len(flat), dtype=bool)
    found[np.cumsum(lengths) - 1] = True  # the empty piece after the last column
    of_columns: list[tuple[pa.Array, npt.NDArray[np.int64]]] = []
    for name in names:
        places = np.flatnonzero(np.asarray(pc.starts_with(flat, f'<col name="{reference.escape(name)}"')))
        found[places] = True
        value, odd = _values(flat.take(pa.array(places)), name)
        # A piece that only looks like the column's beginning (CDATA with `</col>` inside) unmasks the row.
        found[places[odd]] = False
        of_columns.append((value, places))
    slow = np.unique(rows[~found])
    slow_rows = dict(zip(slow.tolist(), (dict(reference.parse(text)) for text in _pick(whole, slow)), strict=True))
    result = []
    for name, old, (value, places) in zip(names, values, of_columns, strict=True):
        if name in skip or not (len(places) or any(name in columns for columns in slow_rows.values())):
            result.append(old)
            continue
        owners = rows[places]
        replaced = np.full(len(whole), -1, dtype=np.int64)
        replaced[owners] = np.arange(len(owners))
        replaced[slow] = -1
        extra = [(row, columns[name]) for row, columns in slow_rows.items() if name in columns]
        for index, (row, _) in enumerate(extra):
            replaced[row] = len(owners) + index
        pool = _concat([value, pa.array([text for _, text in extra], TEXT), old])
        indices = np.where(replaced >= 0, replaced, len(owners) + len(extra) + np.arange(len(whole)))
        result.append(pool.take(pa.array(indices)))
    return result


def written(
    names: Sequence[str],
    values: Sequence[pa.Array],
    only: Sequence[pa.Array | None] = (),
    plain: Collection[str] = (),
) -> pa.Array:
    """The rows as contents: what `columns` reads. `only`: for each column which rows name it; None: all.

    `plain`: columns whose values are known to need no protection.
    """
    pieces = []
    for index, (name, column) in enumerate(zip(names, values, strict=True)):
        named = only[index] if only else None
        piece = _written(name, column, plain=name in plain)
        pieces.append(piece if named is None else pc.if_else(named, piece, pa.scalar("", TEXT)))
    return pc.binary_join_element_wise(*pieces, pa.scalar("", TEXT))


def is_plain(contents: pa.Array) -> bool:
    """Whether no value is in CDATA or base64."""
    marks = (_CDATA, ' encoding="base64">')
    return not any(pc.any(pc.match_substring(contents, mark)).as_py() for mark in marks)


def _written(name: str, values: pa.Array, *, plain: bool) -> pa.Array:
    """One column's piece of each row."""
    head, null = f'<col name="{reference.escape(name)}">', reference.format_column(name, None)
    piece = pc.binary_join_element_wise(pa.scalar(head, TEXT), values, pa.scalar(_END, TEXT), pa.scalar("", TEXT))
    protected = None if plain else pc.fill_null(pc.match_substring_regex(values, _PROTECTED), False)
    if protected is not None and pc.any(protected).as_py():
        texts = [reference.format_column(name, value) for value in values.filter(protected).to_pylist()]
        piece = pc.replace_with_mask(piece, protected, pa.array(texts, TEXT))
    return pc.fill_null(piece, pa.scalar(null, TEXT)) if values.null_count else piece


def _columns(contents: pa.Array, names: Sequence[str]) -> list[pa.Array]:
    width = len(names) + 1
    pieces = pc.split_pattern(contents, _END)
    regular = np.asarray(pc.list_value_length(pieces)) == width
    if regular.all():
        rows = None
        flat = pieces.flatten()
    else:
        rows = np.flatnonzero(regular)
        flat = pieces.take(pa.array(rows)).flatten()
    count = len(flat) // width
    odd = np.zeros(count, dtype=bool)
    values = []
    for number, name in enumerate(names):
        value, wrong = _values(flat.take(pa.array(np.arange(number, len(flat), width))), name)
        values.append(value)
        odd |= wrong
    rest = flat.take(pa.array(np.arange(width - 1, len(flat), width)))
    odd |= np.asarray(pc.not_equal(rest, ""))
    if rows is None and not odd.any():
        return values
    # Patch in what the reference reader makes of the others.
    fast = np.flatnonzero(~odd) if rows is None else rows[~odd]
    slow = np.setdiff1d(np.arange(len(contents)), fast)
    parsed = [_reference_row(text, names) for text in _pick(contents, slow)]
    order = np.empty(len(contents), dtype=np.int64)
    order[fast] = np.arange(len(fast))
    order[slow] = len(fast) + np.arange(len(slow))
    kept = pa.array(~odd)
    return [
        _concat([value.filter(kept), pa.array([row[number] for row in parsed], TEXT)]).take(pa.array(order))
        for number, value in enumerate(values)
    ]


def _values(pieces: pa.Array, name: str) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Values of one column from its pieces, and which pieces are not of this column's form."""
    attribute = reference.escape(name)
    plain = f'<col name="{attribute}">'
    begins = np.asarray(pc.starts_with(pieces, plain))
    value = _cut(pieces, len(plain.encode()))
    marked = begins & np.asarray(pc.starts_with(pieces, plain + _CDATA))
    if begins.all() and not marked.any():
        return value, np.zeros(len(pieces), dtype=bool)
    odd = ~begins
    if marked.any():
        closed = np.asarray(pc.ends_with(pieces, "]]>"))
        value = pc.if_else(pa.array(marked), _cut(pieces, len((plain + _CDATA).encode()), -3), value)
        odd |= marked & ~closed
    null = np.asarray(pc.equal(pieces, f'<col name="{attribute}" type="null">'))
    if null.any():
        value = pc.if_else(pa.array(null), pa.scalar(None, TEXT), value)
        odd &= ~null
    coded = f'<col name="{attribute}" encoding="base64">'
    encoded = np.asarray(pc.starts_with(pieces, coded))
    if encoded.any():
        texts = _cut(pieces.filter(pa.array(encoded)), len(coded.encode())).to_pylist()
        try:
            decoded = [reference.decode(text) for text in texts]
        except ValueError:
            return value, odd  # the reference reader says what is wrong with it
        value = pc.replace_with_mask(value, pa.array(encoded), pa.array(decoded, TEXT))
        odd &= ~encoded
    return value, odd


def _cut(pieces: pa.Array, start: int, stop: int = 2**31 - 1) -> pa.Array:
    # Cut by bytes, which is fast. Of a piece without the expected markup that may leave half a character;
    # nobody looks at it, hence no check here.
    return pc.binary_slice(pieces.cast(pa.large_binary()), start, stop).cast(options=_UNCHECKED)


def _reference_row(text: str, names: Sequence[str]) -> list[str | None]:
    row = reference.parse(text)
    # Of two changes of a row that leave columns out, or of one and the row's insert, both are needed: one by one.
    if reference.is_partial(text) or [name for name, _ in row] != list(names):
        raise MixedShapes(names)
    return [value for _, value in row]


def _pick(contents: pa.Array, rows: npt.NDArray[np.int64]) -> list[str]:
    picked: list[str] = contents.take(pa.array(rows, pa.int64())).to_pylist()
    return picked


def _concat(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
