"""A master whose changes are read from its redo logs by OpenLogReplicator (`capture: redo`)."""

import re
from dataclasses import replace

from sluice.configuration import option, stream
from sluice.configuration.mistakes import Mistake
from sluice.configuration.model import Endpoint, RedoOptions
from sluice.configuration.nodes import Section

_ZONE = re.compile(r"[+-](?:0\d|1[0-4]):[0-5]\d\Z")
_ABSOLUTE = ("program", "schema", "logs", "work", "token_file", "proxy_authority")
_NEEDED = {
    "program": "name the program of OpenLogReplicator 1.9.0, e.g. /opt/OpenLogReplicator/OpenLogReplicator",
    "schema": "name the schema checkpoint with which capture begins, e.g. /srv/redo/shop/SHOP-chkpt-2266634.json",
}


def endpoint(section: Section, mistakes: list[Mistake]) -> Endpoint:
    """From the lines of the master: those of a recorded stream, which is in a folder of `location`."""
    conn_id = section.text("conn_id", "", "name the connection to the master's database, e.g. shop_oracle")
    found = stream.endpoint(section, mistakes)
    return replace(found, capture="redo", conn_id=conn_id)


def options(section: Section, master: Endpoint, mistakes: list[Mistake]) -> RedoOptions | None:
    """The section `redo`; None where the master is captured otherwise."""
    if master.capture != "redo":
        if node := section.get("redo"):
            mistakes.append(node.mistake("means nothing without capture: redo of the master", "take it out"))
        return None
    found = option.read(section, "redo", RedoOptions)
    inner = section.section("redo") or section
    for name, right in _NEEDED.items():
        if section.inside("redo", name) is None:
            inner.missing(name if inner is not section else "redo", right)
    for name in _ABSOLUTE:
        node, value = section.inside("redo", name), getattr(found, name)
        if node is not None and value is not None and not value.startswith("/"):
            mistakes.append(node.mistake(f"{value!r} is not absolute", "write it from / on"))
    node = section.inside("redo", "proxy")
    if node is not None and not (found.archived and found.token_file):
        mistakes.append(node.mistake("needs archived and token_file", "say where its logs are, and its token's file"))
    if node is None and (other := section.inside("redo", "archived") or section.inside("redo", "token_file")):
        mistakes.append(other.mistake("means nothing without proxy", "take it out, or add proxy"))
    node = section.inside("redo", "threads")
    if node is not None and (not found.threads or not all(each.isdigit() and int(each) for each in found.threads)):
        mistakes.append(node.mistake("is no list of redo threads", "write V$THREAD.THREAD#, e.g. 1, 2"))
    node = section.inside("redo", "ends_at")
    if node is not None and not all(each.isdigit() for each in found.ends_at):
        mistakes.append(node.mistake("is no list of SCNs", "write where the slaves are, as the apply says it"))
    node = section.inside("redo", "host_timezone")
    if node is not None and not _ZONE.match(found.host_timezone):
        mistakes.append(node.mistake(f"{found.host_timezone!r} is no zone", "write the master's offset, e.g. +08:00"))
    return found
