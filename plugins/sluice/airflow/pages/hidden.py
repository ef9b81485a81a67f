"""Hides values of rows in everything that the monitor shows to people who may not see them. Pure.

Messages of an apply name the conflicting row, and a server's own messages quote values. The patterns here cover both.
`sluice.airflow.pages.look.images` hides the images of rejects.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.known import Gathered
from sluice.airflow.pages.look import Looked, SlaveLook
from sluice.coordination.known_pairs import Known, KnownSlave, Past
from sluice.model.mask import HIDDEN
from sluice.model.names import Prefix

_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_VALUES = (
    (re.compile(rf"(= ){_QUOTED}", re.DOTALL), rf"\1{HIDDEN}"),
    (re.compile(r"(\)=\().*(\))", re.DOTALL), rf"\1{HIDDEN}\2"),
    (re.compile(r"(row contains \().*(\))", re.DOTALL), rf"\1{HIDDEN}\2"),
    (
        re.compile(r"(syntax for [^:]*: |value: |value |entry |literal: )(?:'.*'|\".*\")", re.DOTALL),
        rf"\1{HIDDEN}",
    ),
)
_TEXTS = ("activity", "message", "configuration")
"""Fields of a status that may quote values."""


def without_values(text: str) -> str:
    """The message with values of rows hidden."""
    for pattern, shown in _VALUES:
        text = pattern.sub(shown, text)
    return text


def shown_to(visitor: Visitor, gathered: Gathered) -> Gathered:
    """The state, without values of rows unless the visitor may see them."""
    return gathered if visitor.sees_values else replace(gathered, known=known(gathered.known))


def known(found: Known) -> Known:
    slaves: Mapping[tuple[Prefix, str], KnownSlave] = {pair: _slave(one) for pair, one in found.slaves.items()}
    return replace(found, slaves=slaves)


def past(found: Past) -> Past:
    return replace(found, events=[replace(event, text=without_values(event.text)) for event in found.events])


def looked(found: Looked[SlaveLook]) -> Looked[SlaveLook]:
    """Hides values, except in the images of rejects."""
    seen = found.seen
    if seen is None:
        return found
    checkpoint = seen.checkpoint and replace(seen.checkpoint, message=without_values(seen.checkpoint.message))
    rejects = [
        replace(one, reason=without_values(one.reason), answer=one.answer and without_values(one.answer))
        for one in seen.rejects
    ]
    return replace(found, seen=replace(seen, checkpoint=checkpoint, rejects=rejects))


def report(value: object, key: str = "") -> Any:
    """A report of `resync` as data (`sluice.verify.report_types`), with values hidden."""
    if isinstance(value, Mapping):
        if key in ("key", "master", "slave"):
            return {column: None if text is None else HIDDEN for column, text in value.items()}
        return {without_values(name): report(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [report(each, key) for each in value]
    return without_values(value) if isinstance(value, str) else value


def _slave(one: KnownSlave) -> KnownSlave:
    said = {
        **one.status,
        **{name: without_values(str(one.status[name])) for name in _TEXTS if one.status.get(name)},
        "not_ready": {table: without_values(str(why)) for table, why in (one.status.get("not_ready") or {}).items()},
        "differing": [without_values(str(reason)) for reason in one.status.get("differing") or ()],
    }
    tables = {
        table: {**seen, "reason": without_values(str(seen["reason"]))} if seen.get("reason") else seen
        for table, seen in one.tables.items()
    }
    closures = [replace(closure, reason=without_values(closure.reason)) for closure in one.closures]
    lacks = [replace(lack, what=without_values(lack.what)) for lack in one.lacks]
    return replace(one, status=said, tables=tables, closures=closures, lacks=lacks)
