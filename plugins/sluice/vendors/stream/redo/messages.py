r"""One line of OpenLogReplicator's output, as version 1.9.0 writes it with the format of docs/redo.md.

What the writer does wrong is fixed here:

| it writes | meant is |
|---|---|
| a control character as `\\u00` and two decimal digits | that character |
| the character 31 as it is | that character |
| `inf`, `-inf`, `nan` without quotes | the number of that name |
| the beginning of a line that a crash cut off, and the next line behind it | the next line |
"""

import json
import re
from typing import Any, NamedTuple

import msgspec

from sluice.vendors.stream.redo.errors import Unfit

_HEAD = re.compile(
    rb'\{(?:"scns?":(?:(\d+)|"0x[0-9a-f]+"),)?(?:"tms?":"?(-?\d+)"?,)?"c_scn":(\d+),"c_idx":\d+,(?:"xid":"([^"]*)",)?'
    rb'(?:"(?:db|usr)":"[^"]*",)*(?:"attributes":\{[^{}]*\},)?"payload":\[\{"op":"(\w+)"'
)
_BEGIN = re.compile(rb'\{"(?:scns?|tms?|c_scn)":')
_ESCAPE = re.compile(rb"\\(?:u00([0-9]{2})|.)", re.DOTALL)
_BARE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\b(?:inf|nan)\b', re.DOTALL | re.IGNORECASE)
_CONTROL = re.compile(rb"[\x00-\x1f]")
SCHEMA = b'"schema":'
"""The text before the description of a table."""
_BEHIND = (b'},"num":', b'},"rid":', b'},"before":{', b'},"after":{', b'},"sql":"')
"""The beginning of the text after the description of a table: names have no quotation marks."""

Values = dict[str, Any]
"""Values of a row: texts, whole numbers, None. Other numbers are texts, because they have up to 40 digits."""


class Payload(msgspec.Struct, gc=False):
    """A parsed message."""

    op: str
    schema: msgspec.Raw = msgspec.Raw()
    """The description of its table, as written."""
    num: int | None = None
    """Its place in the transaction."""
    before: Values = {}
    after: Values = {}
    sql: str = ""


class _Line(msgspec.Struct, gc=False):
    payload: list[Payload]


_DECODER = msgspec.json.Decoder(_Line, float_hook=str)


class Head(NamedTuple):
    """The head of a line, without its values."""

    op: str
    """`begin`, `c`, `u`, `d`, `ddl`, `commit`, `chkpt`."""
    scn: int
    """The SCN of the commit, or of a checkpoint."""
    xid: str
    time: int | None
    """The time of the commit, as in the format."""
    begins: int = 0
    """Where in the line the message begins: after the rest of a crash."""


def head(raw: bytes) -> Head:
    """Reads a line. Raises `Unfit`."""
    match = _HEAD.match(raw)
    if match is None or _doubtful(raw):
        # A line that was cut off has no line end. In texts, quotation marks are escaped.
        last = None
        for at in _BEGIN.finditer(raw, 1):
            last = _HEAD.match(raw, at.start()) or last
        if last is None:
            raise Unfit(_reason(raw))
        match = last
    commit, time, lwn, xid, op = match.groups()
    return Head(
        op.decode(),
        # With format.scn-type 3 `scn` is the commit's SCN. `c_scn` is that of the group of redo records in which the
        # commit lies: two threads' commits are not in its order.
        int(commit if commit is not None else lwn),
        xid.decode() if xid is not None else "",
        int(time) if time is not None else None,
        match.start(),
    )


def _doubtful(raw: bytes) -> bool:
    """Whether there may be two messages in a line."""
    return raw.count(b'"c_scn":') > 1


def schema_of(raw: bytes, begin: int = 0) -> tuple[int, int] | None:
    """The place of the description of its table in a line; None without one."""
    begin = raw.find(SCHEMA, begin)
    if begin < 0:
        return None
    begin += len(SCHEMA)
    end = raw.find(_BEHIND[0], begin)
    if end < 0:
        end = min((at for each in _BEHIND[1:] if (at := raw.find(each, begin)) >= 0), default=-1)
    return (begin, end + 1) if end >= 0 else None


def payload_of(raw: bytes) -> Payload:
    """Reads a line. Raises `Unfit`."""
    if b"\\u" in raw:
        raw = _ESCAPE.sub(_character, raw)
    try:
        payload = _decoded(raw)
    except msgspec.DecodeError:
        whole = raw[head(raw).begins :].rstrip()
        try:
            payload = _decoded(_BARE.sub(_quoted, _CONTROL.sub(_escaped, whole)))
        except msgspec.DecodeError as error:
            raise Unfit(f"is no JSON: {error}") from None
    if len(payload) != 1:
        raise Unfit("has not one payload: format.message must be 2 for OpenLogReplicator")
    return payload[0]


def _decoded(raw: bytes) -> list[Payload]:
    try:
        return _DECODER.decode(raw).payload
    except UnicodeDecodeError as error:
        raise Unfit(f"is no UTF-8 ({error.reason}): set format.char to 0 for OpenLogReplicator") from None


def _character(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % int(match[1]) if match[1] else match[0]


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % match[0][0]


def _quoted(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else b'"%b"' % match[0].lower()


def _reason(raw: bytes) -> str:
    try:
        values = json.loads(raw)
    except ValueError as error:
        return f"is no JSON: {error}"
    if not isinstance(values, dict) or "c_scn" not in values:
        return "has no c_scn: this is no message of OpenLogReplicator 1.9.0"
    return "is a message of another format than docs/redo.md asks for"
