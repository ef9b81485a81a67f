"""The configuration of a replication whose direction was turned round: pure, but for the file that is written."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from sluice import whole_files
from sluice.configuration.model import Endpoint, Replication
from sluice.configuration.rule import TablePattern
from sluice.model.names import TableName

SUFFIX = ".reversed"
"""No suffix of a replication file: a prefix that two files claim belongs to neither."""


def turned(replication: Replication, slave: str) -> Replication:
    """The replication in which master and `slave` have changed places; other slaves are left out."""
    former, new = replication.master, replication.slave(slave)
    follower = replace(new, conn_id=former.conn_id, vendor=former.vendor, schema=former.schema)
    return replace(replication, master=Endpoint(new.conn_id, new.vendor, new.schema), slaves={slave: follower})


def reversed_text(
    text: str, slave: str, *, left_over: Sequence[TableName] = (), servers: tuple[str, str] = ("", "")
) -> str:
    """The YAML of a replication in which master and `slave` have changed places; other keys stay, comments go.

    `left_over`: tables that only the new master has, which are not replicated. `servers`: where the former master and
    the new one are, in words.
    """
    values: dict[str, Any] = yaml.safe_load(text)
    master, other = dict(values["master"]), dict(values["slaves"][slave])
    own = ("conn_id", "vendor", "schema", "allow_superuser")
    values["master"] = {key: other[key] for key in own if key in other}
    kept = {key: value for key, value in other.items() if key not in own}
    values["slaves"] = {
        name: ({**{key: master[key] for key in own if key in master}, **kept} if name == slave else options)
        for name, options in values["slaves"].items()
    }
    if "vendor" in master:  # a slave's vendor is its master's unless the file says otherwise
        values["master"].setdefault("vendor", master["vendor"])
    if left_over:
        excluded = {TablePattern(table.schema, table.name): table for table in left_over}
        lines = {key: rule for key, rule in values["tables"].items() if TablePattern.parse(str(key)) not in excluded}
        values["tables"] = {**lines, **{TablePattern.exactly(table): {"replicate": False} for table in left_over}}
    others = [name for name in values["slaves"] if name != slave]
    head = [f"# Made by a failover: slave {slave} and the master have changed places."]
    if all(servers):
        head.append(f"# The master is {servers[1]}. Slave {slave} is {servers[0]}, the former master.")
    if left_over:
        listed = ", ".join(map(str, left_over))
        head.append(f"# Dropped on the former master, kept on the new one, and not replicated: {listed}.")
    if others:
        head.append(f"# Positions of {', '.join(others)} are the former master's: trigger initial_update for each.")
    if "cascade" in master:
        head.append(f"# cascade of the former master is left out: {master['cascade']}")
    head = [" ".join(line.split()) for line in head]  # a name may hold the end of a line
    return "\n".join(head) + "\n" + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def write(
    replication: Replication, slave: str, *, left_over: Sequence[TableName] = (), servers: tuple[str, str] = ("", "")
) -> Path | None:
    """Writes it beside the file that is in force; None if that is no YAML, or one that points elsewhere."""
    source = replication.source
    if source.suffix not in (".yaml", ".yml") or replication.points_at:
        return None
    file = source.with_name(source.name + SUFFIX)
    whole_files.write(
        file, reversed_text(source.read_text(encoding="utf-8"), slave, left_over=left_over, servers=servers)
    )
    return file
