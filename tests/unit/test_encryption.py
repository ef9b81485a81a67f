"""Encrypted files: decryption returns the original, or fails."""

import base64
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.load.transfer import encryption
from tests.errors import raises_code
from tests.examples import examples

KEY = bytes(range(32))
FRAME = encryption.FRAME_BYTES


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[place : place + size] for place in range(0, len(data), size)]


def seal(data: bytes, name: str = "a") -> bytes:
    return b"".join(encryption.encrypted([data], KEY, name))


def unseal(data: bytes, name: str = "a", key: bytes = KEY, size: int = 10_000) -> bytes:
    return b"".join(encryption.decrypted(cut(data, size), key, name))


@pytest.mark.parametrize("length", [0, 1, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME, 3 * FRAME + 7])
@pytest.mark.parametrize("size", [999, FRAME + 16, 10**7])
def test_any_length_travels_in_any_pieces(length: int, size: int) -> None:
    data = os.urandom(length)
    assert unseal(b"".join(encryption.encrypted(cut(data, size), KEY, "a")), size=size) == data


@settings(max_examples=examples(60))
@given(st.binary(max_size=300), st.data())
def test_a_byte_altered_or_cut_anywhere_is_found(data: bytes, chosen: st.DataObject) -> None:
    whole = seal(data)
    place = chosen.draw(st.integers(0, len(whole) - 1))
    altered = bytearray(whole)
    altered[place] ^= chosen.draw(st.integers(1, 255))
    for damaged in (bytes(altered), whole[:place], whole + b"x"):
        with pytest.raises(encryption.DecryptionFailed):
            unseal(damaged)


def test_frames_cannot_change_places_be_dropped_or_end_the_file() -> None:
    whole = seal(os.urandom(3 * FRAME))
    head, frames = whole[: encryption.HEAD_BYTES], cut(whole[encryption.HEAD_BYTES :], FRAME + encryption.TAG_BYTES)
    assert len(frames) == 3 and unseal(head + b"".join(frames))
    for order in ([1, 0, 2], [0, 2], [0, 1], [0, 0, 1, 2], [2]):
        with pytest.raises(encryption.DecryptionFailed):
            unseal(head + b"".join(frames[place] for place in order))


def test_another_name_or_another_key_opens_nothing() -> None:
    with pytest.raises(encryption.DecryptionFailed, match="another key"):
        unseal(seal(b"rows"), key=bytes(32))
    with pytest.raises(encryption.DecryptionFailed):
        unseal(seal(b"rows", "7-1"), "7-2")


def test_the_same_rows_look_different_each_time() -> None:
    assert seal(b"rows") != seal(b"rows")


@pytest.mark.parametrize("text", ["", "short", base64.b64encode(bytes(31)).decode(), "ä" * 44, "!" * 44])
def test_a_text_that_is_no_key_is_answered_with_how_to_make_one(text: str) -> None:
    with raises_code("invalid-encryption-key", match="openssl rand -base64 32"):
        encryption.key_of(text, "connection x")
    assert encryption.key_of(base64.b64encode(KEY).decode() + "\n", "connection x") == KEY
