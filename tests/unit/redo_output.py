"""Writes what OpenLogReplicator 1.9.0 writes, with the format of docs/redo.md, for tests."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sluice.vendors.stream.redo.merge import ThreadId

RESETLOGS, BEGAN = 1_000_000, 50
ONE, TWO = ThreadId(RESETLOGS, 1), ThreadId(RESETLOGS, 2)
COLUMNS: tuple[dict[str, Any], ...] = (
    {"name": "ID", "type": "number", "precision": -1, "scale": -1, "nullable": False},
    {"name": "NAME", "type": "varchar2", "length": 100, "nullable": True},
    {"name": "NOTE", "type": "clob", "length": 4000, "nullable": True},
)
SECOND = 1_772_311_432_000_000_000


def message(scn: int, index: int, xid: str, payload: str) -> str:
    """A line, without its line break."""
    head = f'{{"scn":{scn},"tm":{SECOND},"c_scn":{scn},"c_idx":{index},"xid":"{xid}","db":"PDB"'
    return f'{head},"payload":[{payload}]}}'


def schema(table: str = "T", columns: Sequence[dict[str, Any]] = COLUMNS, owner: str = "APP") -> str:
    return json.dumps({"owner": owner, "table": table, "obj": 7, "columns": list(columns)}, separators=(",", ":"))


def row(op: str, number: int, before: dict[str, Any] | None, after: dict[str, Any] | None, of: str = "") -> str:
    """The payload of a row."""
    images = "".join(
        f',"{name}":{json.dumps(image, ensure_ascii=False, separators=(",", ":"))}'
        for name, image in (("before", before), ("after", after))
        if image is not None
    )
    return f'{{"op":"{op}","schema":{of or schema()},"num":{number},"rid":"AAARwWAAYAAAAAOAAA"{images}}}'


def insert(number: int, key: int, name: str | None = "v", of: str = "") -> str:
    return row("c", number, None, {"ID": key, "NAME": name}, of)


def update(number: int, key: int, before: dict[str, Any], after: dict[str, Any]) -> str:
    return row("u", number, {"ID": key, **before}, {"ID": key, **after})


def delete(number: int, key: int) -> str:
    return row("d", number, {"ID": key}, None)


def ddl(sql: str, of: str = "") -> str:
    return f'{{"op":"ddl","schema":{of or schema()},"sql":{json.dumps(sql)}}}'


def transaction(scn: int, xid: str, payloads: Sequence[str]) -> list[str]:
    """The lines of a transaction."""
    whole = ['{"op":"begin"}', *payloads, '{"op":"commit"}']
    return [message(scn, index, xid, payload) for index, payload in enumerate(whole, start=1)]


def checkpoint(scn: int) -> str:
    return f'{{"scn":{scn},"tm":{SECOND},"c_scn":{scn},"c_idx":1,"payload":[{{"op":"chkpt","seq":15,"offset":10240}}]}}'


def schema_checkpoint(
    keys: Mapping[tuple[str, str], Sequence[str]], incarnations: Sequence[tuple[int, int]] = ((RESETLOGS, BEGAN),)
) -> dict[str, Any]:
    """A schema checkpoint with keys and incarnations. `keys`: owner and table → columns of the primary key."""
    users = sorted({owner for owner, _ in keys})
    made: dict[str, list[dict[str, Any]]] = {
        "sys-user": [{"user": number, "name": name} for number, name in enumerate(users)],
        "sys-obj": [],
        "sys-col": [],
        "sys-cdef": [],
        "sys-ccol": [],
    }
    for obj, ((owner, table), names) in enumerate(keys.items()):
        made["sys-obj"].append({"owner": users.index(owner), "obj": obj, "name": table, "type": 2})
        if names:
            made["sys-cdef"].append({"con": obj, "obj": obj, "type": 2})
        for place, name in enumerate(names, start=1):
            made["sys-col"].append({"obj": obj, "int-col": place, "name": name})
            made["sys-ccol"].append({"con": obj, "int-col": place, "obj": obj})
    known = [{"resetlogs": resetlogs, "resetlogs-scn": scn} for resetlogs, scn in incarnations]
    return {"resetlogs": incarnations[-1][0], "incarnations": known, **made}


def folder(root: Path, thread: ThreadId = ONE, lines: Iterable[str] = (), *, closed: bool = False, **more: Any) -> Path:
    """A thread's folder with one file; `more`: arguments of `schema_checkpoint`."""
    made = root / str(thread)
    made.mkdir(parents=True, exist_ok=True)
    (made / "TEST-chkpt-60.json").write_text(json.dumps(schema_checkpoint(**{"keys": {("APP", "T"): ["ID"]}, **more})))
    if closed:
        (made / "thread.json").write_text('{"closed": true}')
    write(made, lines)
    return made


def write(made: Path, lines: Iterable[str], file: str = "1.jsonl") -> None:
    """Appends lines."""
    with (made / file).open("a", encoding="utf-8") as opened:
        opened.writelines(line + "\n" for line in lines)
