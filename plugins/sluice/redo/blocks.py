"""Blocks of Oracle redo logs: their checksums, the header of a log, and the first block, which ASM does not return. No
I/O.

Little-endian, as on all machines with Oracle Linux; a big-endian log is recognized by the order of its mark.
"""

import struct
from dataclasses import dataclass

import numpy as np

from sluice.errors import Terminal

LITTLE, BIG = bytes.fromhex("7d7c7b7a"), bytes.fromhex("7a7b7c7d")
"""The mark of the byte order, in the first block."""
SIZES = (512, 1024, 4096)
_OPEN = 0xFFFFFFFF
"""The number of blocks in the header of a log that is still being written."""
_COMPATIBLE = 0x13000000


class NotRedo(Terminal):
    """The bytes are no redo log."""

    def __init__(self, reason: str):
        super().__init__(f"{reason}: this is no redo log of Oracle, or a damaged one.")


@dataclass(frozen=True)
class LogHeader:
    """The header of a log, from its second block."""

    thread: int
    sequence: int
    resetlogs: int
    first_scn: int
    next_scn: int | None
    """None while it is being written."""
    blocks: int | None
    """The number of blocks, with the first one; None while it is being written."""
    size: int = 512
    """The size of a block, in bytes."""
    database: int = 0
    """V$DATABASE.DBID."""

    @property
    def complete(self) -> bool:
        return self.next_scn is not None and self.blocks is not None


def block_size(first: bytes) -> int:
    """Reads the first block. Raises `NotRedo`."""
    if len(first) < 32 or first[0] != 0 or first[1] not in (0x22, 0x82):
        raise NotRedo(f"the first block begins with {first[:2].hex(' ')}")
    if first[28:32] == BIG:
        raise NotRedo("it was written by a big-endian machine, which is not supported")
    size = int.from_bytes(first[20:24], "little")
    if first[28:32] != LITTLE or size not in SIZES:
        raise NotRedo(f"its first block has the mark {first[28:32].hex(' ')} and blocks of {size} bytes")
    return size


def read_header(start: bytes) -> LogHeader:
    """Reads the first two blocks. Raises `NotRedo`."""
    size = block_size(start)
    block = start[size : 2 * size]
    if len(block) < size or block[0] != 1:
        raise NotRedo("its second block is not there")
    if damaged(block, size, 1):
        raise NotRedo("the checksum of its second block is wrong")
    number, thread = struct.unpack_from("<I", block, 156)[0], struct.unpack_from("<H", block, 176)[0]
    sequence, resetlogs = struct.unpack_from("<I", block, 8)[0], struct.unpack_from("<I", block, 160)[0]
    database = struct.unpack_from("<I", block, 24)[0]
    first, following = _scn(block, 180), _scn(block, 192)
    if first is None:
        raise NotRedo("its header has no first SCN")
    written = None if number == _OPEN else number
    return LogHeader(thread, sequence, resetlogs, first, following, written, size, database)


def first_block(size: int, blocks: int = 0) -> bytes:
    """The fields that readers use of the first block of a log with `blocks` blocks after it."""
    if size not in SIZES:
        raise NotRedo(f"blocks of {size} bytes")
    buffer = bytearray(size)
    buffer[1] = 0x82 if size == 4096 else 0x22
    struct.pack_into("<II", buffer, 20, size, blocks)
    buffer[28:32] = LITTLE
    return bytes(buffer)


def header_block(header: LogHeader) -> bytes:
    """The second block of a log."""
    buffer = bytearray(header.size)
    buffer[0], buffer[1] = 1, 0x82 if header.size == 4096 else 0x22
    for offset, value in (
        (4, 1),
        (8, header.sequence),
        (20, _COMPATIBLE),
        (24, header.database),
        (160, header.resetlogs),
    ):
        struct.pack_into("<I", buffer, offset, value)
    struct.pack_into("<I", buffer, 156, _OPEN if header.blocks is None else header.blocks)
    struct.pack_into("<H", buffer, 176, header.thread)
    buffer[180:188], buffer[192:200] = _scn_bytes(header.first_scn), _scn_bytes(header.next_scn)
    return _summed(buffer)


def block(number: int, sequence: int, content: bytes, size: int = 512) -> bytes:
    """A block with `content` after its header of 16 bytes."""
    buffer = bytearray(size)
    buffer[0], buffer[1] = 1, 0x82 if size == 4096 else 0x22
    struct.pack_into("<II", buffer, 4, number, sequence)
    buffer[16 : 16 + len(content)] = content
    return _summed(buffer)


def damaged(data: bytes | memoryview, size: int, first: int, sequence: int | None = None) -> list[int]:
    """The numbers of the blocks in `data` with a wrong checksum or number; `first`: the number of the first block.

    Empty blocks are right. `sequence`: of the log, if it is known.
    """
    rows = np.frombuffer(data, "<u8").reshape(-1, size // 8)
    folded = np.bitwise_xor.reduce(rows, axis=1)
    folded ^= folded >> np.uint64(32)
    folded ^= folded >> np.uint64(16)
    # The checksum makes the XOR of all words zero.
    wrong = (folded & np.uint64(0xFFFF)) != 0
    heads = np.frombuffer(data, "<u4").reshape(-1, size // 4)
    used = (heads[:, 0] & 0xFFFF) != 0
    numbers = np.arange(first, first + len(rows), dtype=np.uint32)
    wrong |= used & (heads[:, 1] != numbers)
    if sequence is not None:
        wrong |= used & (heads[:, 2] != np.uint32(sequence))
    return [int(each) + first for each in np.flatnonzero(wrong)]


def written(data: bytes | memoryview, size: int, first: int, sequence: int) -> int:
    """How many of the blocks in `data` belong to this log: a reused log has old blocks after them."""
    heads = np.frombuffer(data, "<u4").reshape(-1, size // 4)
    numbers = np.arange(first, first + len(heads), dtype=np.uint32)
    old = (heads[:, 1] != numbers) | (heads[:, 2] != np.uint32(sequence))
    stale = np.flatnonzero(old)
    return int(stale[0]) if len(stale) else len(heads)


def _summed(buffer: bytearray) -> bytes:
    """The block with its checksum: the two bytes that make the XOR of all words zero."""
    buffer[14:16] = b"\0\0"
    folded = 0
    for (word,) in struct.iter_unpack("<Q", buffer):
        folded ^= word
    folded ^= folded >> 32
    folded ^= folded >> 16
    struct.pack_into("<H", buffer, 14, folded & 0xFFFF)
    return bytes(buffer)


def _scn(block: bytes, at: int) -> int | None:
    raw = block[at : at + 8]
    if raw[:6] == b"\xff" * 6:
        return None
    if raw[5] & 0x80:
        return int.from_bytes(bytes([*raw[:4], raw[6], raw[7], raw[4], raw[5] & 0x7F]), "little")
    return int.from_bytes(raw[:6], "little")


def _scn_bytes(scn: int | None) -> bytes:
    if scn is None:
        return b"\xff" * 6 + b"\0\0"
    raw = scn.to_bytes(8, "little")
    if scn < 1 << 47:
        return raw[:6] + b"\0\0"
    return bytes([*raw[:4], raw[6], raw[7] | 0x80, raw[4], raw[5]])
