"""Compresses empty blocks for the transfer: a log that was archived early consists mostly of them. No I/O."""

import struct

import numpy as np

BLOCK = 512
ENCODING = "x-zero-blocks"
_RUN = struct.Struct("<II")
"""The number of empty blocks, then the number of bytes that follow unchanged."""


class NotPacked(ValueError):
    """The bytes do not come from `pack`."""


def pack(data: bytes) -> bytes | None:
    """Packs `data` for `unpack`; None if no block is empty."""
    whole = len(data) // BLOCK
    rows = np.frombuffer(data, "<u8", whole * BLOCK // 8).reshape(whole, BLOCK // 8)
    # A used block begins with its kind and number, so few other blocks are compared as a whole.
    used = rows[:, 0] != 0
    doubtful = np.flatnonzero(~used)
    used[doubtful] = rows[doubtful].any(axis=1)
    if used.all():
        return None
    # The beginnings and ends of empty blocks.
    edges = np.flatnonzero(np.diff(np.concatenate(([True], used, [True])).astype(np.int8)))
    parts: list[bytes] = []
    at = 0
    for begin, end in edges.reshape(-1, 2):
        if begin > at:
            parts += [_RUN.pack(0, int(begin - at) * BLOCK), data[at * BLOCK : int(begin) * BLOCK]]
        parts.append(_RUN.pack(int(end - begin), 0))
        at = int(end)
    rest = data[at * BLOCK :]
    return b"".join([*parts, _RUN.pack(0, len(rest)), rest])


def unpack(packed: bytes, most: int) -> bytes:
    """Unpacks at most so many bytes. Raises `NotPacked`."""
    parts: list[bytes] = []
    at = size = 0
    while at < len(packed):
        if at + _RUN.size > len(packed):
            raise NotPacked("ends within a run")
        zeros, length = _RUN.unpack_from(packed, at)
        at += _RUN.size
        size += zeros * BLOCK + length
        if size > most or at + length > len(packed):
            raise NotPacked("holds more than was asked for, or less than it says")
        parts += [bytes(zeros * BLOCK), packed[at : at + length]]
        at += length
    return b"".join(parts)
