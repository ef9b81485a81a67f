"""Leaves empty blocks out of what travels: most of a log that was archived early is nothing else. Pure."""

import struct

import numpy as np

BLOCK = 512
ENCODING = "x-zero-blocks"
_RUN = struct.Struct("<II")
"""So many empty blocks, then so many bytes as they are."""


class NotPacked(ValueError):
    """Bytes that `pack` did not make."""


def pack(data: bytes) -> bytes:
    """What `unpack` makes `data` of."""
    whole = len(data) // BLOCK
    if not whole:
        return _RUN.pack(0, len(data)) + data
    used = np.frombuffer(data, "<u8", whole * BLOCK // 8).reshape(whole, -1).any(axis=1)
    # Where empty blocks begin and end.
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
    """At most so many bytes. Raises `NotPacked`."""
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
        if not parts and not zeros and at + length == len(packed):
            return packed[at:]  # The usual case: copied once.
        parts += [bytes(zeros * BLOCK), packed[at : at + length]]
        at += length
    return b"".join(parts)
