"""The protocol of OpenLogReplicator 1.9.0's network writer.

OpenLogReplicator listens, for one client. Each message is a frame: its length in four bytes, the lowest first, and so
many bytes. Requests and the answers to them are protobuf, of which only numbers and one text are needed; once
streaming has begun, frames hold the output's lines, without their ends, in the form that `format` asks for.

| to | request | answer |
|---|---|---|
| learn how it is | INFO | READY: it waits for START; REPLICATE: it waits for CONTINUE |
| begin | START with an SCN, or `NOW` | REPLICATE, then the stream; FAILED_START |
| continue | CONTINUE behind `c_scn` and `c_idx` | REPLICATE, then the stream |
| let it forget | CONFIRM up to `c_scn` and `c_idx` | none |
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from sluice.errors import Transient

NOW = 0xFFFFFFFFFFFFFFFF
"""The SCN of START that means: from now on."""
_LENGTH = 4
_LONGER = 0xFFFFFFFF
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class NotTheProtocol(Transient):
    """Another program listens there, or the connection was cut within a message."""

    def __init__(self, reason: str):
        super().__init__(f"{reason}: this is not the network writer of OpenLogReplicator 1.9.0.")


class RequestCode(IntEnum):
    """What a client asks of OpenLogReplicator."""

    INFO = 0
    START = 1
    CONTINUE = 2
    CONFIRM = 3


class ResponseCode(IntEnum):
    """What OpenLogReplicator answers."""

    READY = 0
    FAILED_START = 1
    STARTING = 2
    ALREADY_STARTED = 3
    REPLICATE = 4
    PAYLOAD = 5
    INVALID_DATABASE = 6
    INVALID_COMMAND = 7


@dataclass(frozen=True)
class Request:
    """A message to OpenLogReplicator."""

    code: RequestCode
    database: str
    """`source.name` of the configuration."""
    scn: int | None = None
    c_scn: int | None = None
    c_idx: int | None = None

    def encode(self) -> bytes:
        # A number of a oneof or an optional one is there although it is 0.
        return b"".join(
            [
                _number(1, self.code or None),
                _text(2, self.database),
                _number(3, self.scn),
                _number(8, self.c_scn),
                _number(9, self.c_idx),
            ]
        )

    @classmethod
    def decode(cls, body: bytes) -> "Request":
        """Raises `NotTheProtocol`."""
        fields = _fields(body)
        try:
            code = RequestCode(_whole(fields, 1) or 0)
        except ValueError as error:
            raise NotTheProtocol(f"a request has the code {error}") from None
        name = fields.get(2, b"")
        database = name.decode("utf-8", "replace") if isinstance(name, bytes) else ""
        return cls(code, database, _whole(fields, 3), _whole(fields, 8), _whole(fields, 9))


@dataclass(frozen=True)
class Response:
    """A message of OpenLogReplicator."""

    code: ResponseCode
    scn: int | None = None
    """The SCN from which it reads."""
    c_scn: int = 0
    c_idx: int = 0
    """The place up to which it has confirmations."""

    def encode(self) -> bytes:
        fields = (_number(1, self.code or None), _number(2, self.scn))
        return b"".join([*fields, _number(10, self.c_scn or None), _number(11, self.c_idx or None)])

    @classmethod
    def decode(cls, body: bytes) -> "Response":
        """Raises `NotTheProtocol`."""
        fields = _fields(body)
        try:
            code = ResponseCode(_whole(fields, 1) or 0)
        except ValueError as error:
            raise NotTheProtocol(f"an answer has the code {error}") from None
        return cls(code, _whole(fields, 2), _whole(fields, 10) or 0, _whole(fields, 11) or 0)


def frame(body: bytes) -> bytes:
    """A frame with the message."""
    return len(body).to_bytes(_LENGTH, "little") + body


class Frames:
    """Splits the data of a connection into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The messages that are complete. Raises `NotTheProtocol`."""
        self._rest += chunk
        data, at = self._rest, 0
        try:
            while at + _LENGTH <= len(data):
                length = int.from_bytes(data[at : at + _LENGTH], "little")
                if length == _LONGER:
                    raise NotTheProtocol("a message is longer than 4 GiB, which OpenLogReplicator does not send whole")
                end = at + _LENGTH + length
                if end > len(data):
                    return
                body, at = bytes(data[at + _LENGTH : end]), end
                yield body
        finally:
            del data[:at]

    @property
    def partial(self) -> bool:
        """Whether there is a part of a message."""
        return bool(self._rest)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _number(field: int, value: int | None) -> bytes:
    return b"" if value is None else _varint(field << 3 | _VARINT) + _varint(value)


def _text(field: int, value: str) -> bytes:
    raw = value.encode()
    return _varint(field << 3 | _BYTES) + _varint(len(raw)) + raw if raw else b""


def _whole(fields: dict[int, int | bytes], field: int) -> int | None:
    value = fields.get(field)
    return value if isinstance(value, int) else None


def _fields(body: bytes) -> dict[int, int | bytes]:
    """The last value of each field of a protobuf message."""
    fields: dict[int, int | bytes] = {}
    at = 0
    try:
        while at < len(body):
            tag, at = _read(body, at)
            field, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                fields[field], at = _read(body, at)
                continue
            if kind not in (_BYTES, _FIXED32, _FIXED64):
                raise NotTheProtocol(f"a message has a field of the kind {kind}")
            length, at = _read(body, at) if kind == _BYTES else (4 if kind == _FIXED32 else 8, at)
            if at + length > len(body):
                raise IndexError
            fields[field] = body[at : at + length]
            at += length
    except IndexError:
        raise NotTheProtocol("a message ends within a field") from None
    return fields


def _read(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise NotTheProtocol("a number has more than 64 bits")
