"""Converts the CSV of every vendor to that of LOAD DATA, where NULL is a word, and an empty field an empty text."""

from collections.abc import Iterable, Iterator

import numpy as np

_QUOTE, _COMMA, _LINE = ord('"'), ord(","), ord("\n")
_WORD = np.frombuffer(b"NULL", np.uint8)


def with_words(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The records behind the first one, the header, cut after a field: empty fields are NULL, those that read NULL are
    quoted. `pieces` may be cut anywhere."""
    kept: list[bytes | memoryview] = []
    size, wanted, headed = 0, 0, False
    for piece in _and_an_end(pieces):
        if piece is not None:
            kept.append(piece)
            size += len(piece)
            if size < wanted:
                continue
        data = b"".join(kept)
        text = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(_ends(text))
        last = int(ends[-1]) + 1 if len(ends) else 0
        # A field that is larger than all that is there is looked at again when twice as much is.
        kept, size = [data[last:]], len(data) - last
        wanted = 2 * size if not last else 0
        first = 0
        if not headed and len(lines := ends[text[ends] == _LINE]):
            headed, first = True, int(lines[0]) + 1
            ends = ends[ends >= first] - first
        if headed and len(ends):
            yield _worded(text[first:last], ends)


def _and_an_end(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview | None]:
    yield from pieces
    yield None


def _ends(text: "np.ndarray[tuple[int], np.dtype[np.uint8]]") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """The ends of fields: commas and line ends that are not inside quotes."""
    ends: np.ndarray[tuple[int], np.dtype[np.bool_]] = (text == _COMMA) | (text == _LINE)
    quotes = text == _QUOTE
    if quotes.any():
        ends &= np.bitwise_xor.accumulate(quotes) == 0
    return ends


def _worded(
    text: "np.ndarray[tuple[int], np.dtype[np.uint8]]", ends: "np.ndarray[tuple[int], np.dtype[np.intp]]"
) -> bytes:
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts
    empty = starts[lengths == 0]
    four = starts[lengths == len(_WORD)]
    named = four[np.all(text[four[:, None] + np.arange(len(_WORD))] == _WORD, axis=1)] if len(four) else four
    if not len(empty) and not len(named):
        return text.tobytes()
    places = np.concatenate((np.repeat(empty, len(_WORD)), named, named + len(_WORD)))
    letters = np.concatenate((np.tile(_WORD, len(empty)), np.full(2 * len(named), _QUOTE, np.uint8)))
    return bytes(np.insert(text, places, letters).tobytes())
