"""The network protocol of OpenLogReplicator: the same bytes as protobuf's own library, frames cut anywhere."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.vendors.stream.redo.protocol import (
    Frames,
    NotTheProtocol,
    Request,
    RequestCode,
    Response,
    ResponseCode,
    frame,
)
from tests.examples import examples

UINT64, STRING, INT32 = 4, 9, 5
NUMBERS = st.integers(0, 2**64 - 1)


def _messages() -> tuple[Any, Any]:
    """Request and response in protobuf, from the numbers of their fields."""
    file = descriptor_pb2.FileDescriptorProto(name="redo.proto", package="test", syntax="proto2")
    fields = {
        "Request": {"code": (1, INT32), "name": (2, STRING), "scn": (3, UINT64), "c_scn": (8, UINT64),
                    "c_idx": (9, UINT64)},
        "Response": {"code": (1, INT32), "scn": (2, UINT64), "c_scn": (10, UINT64), "c_idx": (11, UINT64)},
    }  # fmt: skip
    for name, described in fields.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in described.items():
            message.field.add(name=field, number=number, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"test.{name}")) for name in fields]
    return made[0], made[1]


REQUEST, RESPONSE = _messages()


@settings(max_examples=examples(100))
@given(
    st.sampled_from(RequestCode), st.text(max_size=40), st.none() | NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS
)
def test_a_request_is_what_protobuf_reads_and_writes(
    code: RequestCode, name: str, scn: int | None, c_scn: int | None, c_idx: int | None
) -> None:
    request = Request(code, name, scn, c_scn, c_idx)
    theirs = REQUEST.FromString(request.encode())
    assert (theirs.code, theirs.name) == (code, name)
    for field in ("scn", "c_scn", "c_idx"):
        assert theirs.HasField(field) == (getattr(request, field) is not None)
        assert getattr(theirs, field) == (getattr(request, field) or 0)
    assert Request.decode(theirs.SerializeToString()) == request


@settings(max_examples=examples(50))
@given(st.sampled_from(ResponseCode), st.none() | NUMBERS, NUMBERS, NUMBERS)
def test_an_answer_is_what_protobuf_reads_and_writes(
    code: ResponseCode, scn: int | None, c_scn: int, c_idx: int
) -> None:
    response = Response(code, scn, c_scn, c_idx)
    theirs = RESPONSE.FromString(response.encode())
    assert (theirs.code, theirs.scn, theirs.c_scn, theirs.c_idx) == (code, scn or 0, c_scn, c_idx)
    assert Response.decode(theirs.SerializeToString()) == response


@settings(max_examples=examples(50))
@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(1, 50))
def test_frames_come_whole_however_the_connection_cuts_them(bodies: list[bytes], step: int) -> None:
    traveling = b"".join(map(frame, bodies))
    frames, found = Frames(), []
    for at in range(0, len(traveling), step):
        found += frames.feed(traveling[at : at + step])
    assert found == bodies


def test_a_reader_that_stops_within_a_chunk_loses_and_repeats_nothing() -> None:
    frames = Frames()
    assert next(frames.feed(frame(b"one") + frame(b"two"))) == b"one"
    assert list(frames.feed(b"")) == [b"two"]


@pytest.mark.parametrize("body", [b"\x08", b"\x12\x05ab", b"\x0f\x01", b"\x08\x63", b"\x08" + b"\xff" * 11])
def test_other_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(NotTheProtocol, match="OpenLogReplicator"):
        Response.decode(body)
