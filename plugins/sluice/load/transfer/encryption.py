"""Encrypts carried files with AES-256-GCM, frame by frame, so that memory has one frame at a time.

A file is a head (`MAGIC`, a salt) and frames of `FRAME_BYTES`. Its key is derived from the given one and the salt
(HKDF-SHA256); a frame's nonce is its number, with a mark on the last frame. So no frame can be altered, dropped,
repeated, reordered, cut off, or moved to a file of another name.
"""

import base64
import binascii
import os
from collections.abc import Iterable, Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sluice.errors import Terminal

MAGIC = b"Sluice sealed 1\n"
SALT_BYTES = 16
HEAD_BYTES = len(MAGIC) + SALT_BYTES
FRAME_BYTES = 64 * 1024
TAG_BYTES = 16
KEY_BYTES = 32


def invalid_encryption_key(source: str) -> Terminal:
    """The text is no key."""
    return Terminal(
        f"{source} holds no key for files: it must be 32 bytes in base64, as `openssl rand -base64 32` makes them.",
        code="invalid-encryption-key",
    )


class DecryptionFailed(ValueError):
    """The bytes are not what was encrypted with this key under this name."""


def key_of(text: str, source: str) -> bytes:
    """The key in `text`; `source`: for the message. Raises `invalid-encryption-key`."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise invalid_encryption_key(source) from None
    if len(key) != KEY_BYTES:
        raise invalid_encryption_key(source)
    return key


def encrypted(pieces: Iterable[bytes], key: bytes, name: str) -> Iterator[bytes]:
    """The file `name`, encrypted."""
    salt = os.urandom(SALT_BYTES)
    cipher = _cipher(key, salt)
    yield MAGIC + salt
    waiting = bytearray()
    number = 0
    for piece in pieces:
        waiting += piece
        while len(waiting) > FRAME_BYTES:
            yield cipher.encrypt(_nonce(number, last=False), bytes(waiting[:FRAME_BYTES]), name.encode())
            del waiting[:FRAME_BYTES]
            number += 1
    yield cipher.encrypt(_nonce(number, last=True), bytes(waiting), name.encode())


def decrypted(pieces: Iterable[bytes], key: bytes, name: str) -> Iterator[bytes]:
    """The decrypted content of the file `name`. Raises `DecryptionFailed` before it yields anything altered."""
    waiting = bytearray()
    cipher: AESGCM | None = None
    number = 0
    for piece in pieces:
        waiting += piece
        if cipher is None and len(waiting) >= HEAD_BYTES:
            if not waiting.startswith(MAGIC):
                raise DecryptionFailed("is not encrypted, or damaged")
            cipher = _cipher(key, bytes(waiting[len(MAGIC) : HEAD_BYTES]))
            del waiting[:HEAD_BYTES]
        while cipher is not None and len(waiting) > FRAME_BYTES + TAG_BYTES:
            yield _decrypted(cipher, number, bytes(waiting[: FRAME_BYTES + TAG_BYTES]), name, last=False)
            del waiting[: FRAME_BYTES + TAG_BYTES]
            number += 1
    if cipher is None:
        raise DecryptionFailed("is cut off")
    yield _decrypted(cipher, number, bytes(waiting), name, last=True)


def _decrypted(cipher: AESGCM, number: int, frame: bytes, name: str, *, last: bool) -> bytes:
    try:
        return cipher.decrypt(_nonce(number, last=last), frame, name.encode())
    except InvalidTag:
        raise DecryptionFailed("is damaged, or was encrypted with another key") from None


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


def _cipher(key: bytes, salt: bytes) -> AESGCM:
    return AESGCM(HKDF(hashes.SHA256(), KEY_BYTES, salt, b"sluice file").derive(key))
