"""Headers and checksums of redo logs: of our own, and of the two real ones, if they exist."""

import pytest

from sluice.redo import blocks
from tests.unit import redo_vectors


@pytest.mark.parametrize("size", blocks.SIZES)
@pytest.mark.parametrize("scn", [1, (1 << 47) - 1, 1 << 47, (1 << 62) + 12_345])
def test_a_header_is_read_as_it_was_written(size: int, scn: int) -> None:
    made = blocks.LogHeader(2, 4711, 1_224_959_854, scn, scn + 9, 77, size)
    assert blocks.read_header(blocks.first_block(size, 76) + blocks.header_block(made)) == made
    growing = blocks.LogHeader(2, 4711, 1_224_959_854, scn, None, None, size)
    found = blocks.read_header(blocks.first_block(size) + blocks.header_block(growing))
    assert found == growing
    assert not found.complete


def test_every_changed_byte_is_found() -> None:
    whole = blocks.block(7, 15, bytes(range(256)))
    assert blocks.damaged(whole, 512, 7, 15) == []
    for place in (2, 4, 8, 14, 16, 511):
        changed = bytearray(whole)
        changed[place] ^= 0x40
        assert blocks.damaged(bytes(changed), 512, 7, 15) == [7], place


def test_a_block_of_another_place_or_another_log_is_damaged_and_an_empty_one_is_not() -> None:
    data = blocks.block(2, 15, b"a") + blocks.block(4, 15, b"b") + bytes(512) + blocks.block(5, 14, b"old")
    assert blocks.damaged(data, 512, 2, 15) == [3, 5]
    assert blocks.written(data, 512, 2, 15) == 1


@pytest.mark.parametrize("start", [b"", bytes(1024), b"\0\x22" + bytes(1022), blocks.first_block(512)])
def test_a_file_that_is_no_redo_log_is_refused(start: bytes) -> None:
    with pytest.raises(blocks.NotRedo, match="no redo log of Oracle"):
        blocks.read_header(start)


def test_a_big_endian_log_is_refused_with_its_reason() -> None:
    first = bytearray(blocks.first_block(512))
    first[28:32] = blocks.BIG
    with pytest.raises(blocks.NotRedo, match="big-endian"):
        blocks.read_header(bytes(first) + bytes(512))


def test_real_logs_have_the_checksums_and_headers_that_are_computed_here() -> None:
    folder = redo_vectors.required() / "redo"
    for sequence, first, following in ((15, 2_266_630, 2_267_717), (16, 2_267_717, 2_267_723)):
        raw = (folder / f"arch1_{sequence}_1224959854.dbf").read_bytes()
        header = blocks.read_header(raw)
        assert (header.thread, header.sequence, header.resetlogs) == (1, sequence, 1_224_959_854)
        assert (header.first_scn, header.next_scn, header.blocks) == (first, following, len(raw) // 512)
        assert blocks.damaged(raw[512:], 512, 1, sequence) == []
        # What readers look at in the first block is what is made for ASM, which does not give it.
        made = blocks.first_block(512, len(raw) // 512 - 1)
        assert [raw[place] for place in (0, 1)] == [made[place] for place in (0, 1)]
        assert raw[20:32] == made[20:32]
