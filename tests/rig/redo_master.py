"""A master whose redo is in the output of two threads, and that can read its rows as of the SCN of each transaction.

Its database is a stand-in, PostgreSQL or what speaks its language: an SCN is a snapshot there, which a session of its
own keeps. The output is what OpenLogReplicator would write of the same transactions.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sluice.vendors.stream.redo.merge import ThreadId
from tests.unit.redo_output import checkpoint, folder, row, schema, transaction, write

NUMBER = {"type": "number", "precision": -1, "scale": -1}
TEXT = {"type": "varchar2", "length": 400, "nullable": True}
T = schema("T", [{"name": "ID", **NUMBER}, {"name": "NAME", **TEXT}, {"name": "NOTE", **TEXT}], "PUBLIC")
PAIRS = schema("PAIRS", [{"name": "A", **NUMBER}, {"name": "B", **TEXT}, {"name": "V", **TEXT}], "PUBLIC")
BAG = schema("BAG", [{"name": "N", **NUMBER}, {"name": "V", **TEXT}], "PUBLIC")
KEYS = {("PUBLIC", "T"): ["ID"], ("PUBLIC", "PAIRS"): ["A", "B"], ("PUBLIC", "BAG"): []}
"""PAIRS has another order of its key in the dictionary than in the schema checkpoint."""
HOSTILE = ["NULL", "]]></col>", "<&>\"'", "🐘", " blank ", "\\.\\n", "x" * 300, "\x1b", "null"]
FIRST_SCN = 100


class RedoMaster:
    """`run` runs a statement of the open transaction, `commit` ends it, `hold` keeps what is committed as an SCN."""

    def __init__(
        self,
        root: Path,
        resetlogs: int,
        run: Callable[[str], object],
        commit: Callable[[], object],
        hold: Callable[[int], object],
        seed: int = 1,
    ):
        self.threads = [ThreadId(resetlogs, number) for number in (1, 2)]
        self.root = root
        self.random = random.Random(seed)
        self._run, self._commit, self._hold = run, commit, hold
        self.scn = FIRST_SCN
        self.rows: dict[int, tuple[str | None, str | None]] = {}
        self.pairs: dict[tuple[int, str], str | None] = {}
        self.bag: list[tuple[int, str | None]] = []
        for thread in self.threads:
            folder(root, thread, keys=KEYS, incarnations=((resetlogs, 50),))

    def transactions(self, count: int) -> None:
        for _ in range(count):
            payloads = [self._change(number) for number in range(self.random.randint(1, 5))]
            self._commit()
            self._hold(self.scn)
            thread = self.random.choice(self.threads)
            write(self.root / str(thread), transaction(self.scn, f"1.{self.scn}.9", payloads))
            self.scn += 1
            for each in self.threads:
                write(self.root / str(each), [checkpoint(self.scn)])

    def _change(self, number: int) -> str:
        choice, text = self.random.random(), self.random.choice([*HOSTILE, None])
        if choice < 0.15:
            return self._of_bag(number, text)
        if choice < 0.35:
            return self._of_pairs(number, text)
        known = len(self.rows) > 20 and choice < 0.85
        key = self.random.choice(list(self.rows)) if known else self.random.randrange(10**6)
        if key not in self.rows:
            self.rows[key] = (text, "whole")
            self._run(f"INSERT INTO T VALUES ({key}, {literal(text)}, 'whole')")
            return row("c", number, None, self._image(key), T)
        before = self._image(key)
        if choice < 0.45:
            del self.rows[key]
            self._run(f"DELETE FROM T WHERE ID = {key}")
            return row("d", number, before, None, T)
        if choice < 0.55:
            other = self.random.randrange(10**6, 2 * 10**6)
            self.rows[other] = self.rows.pop(key)
            self._run(f"UPDATE T SET ID = {other} WHERE ID = {key}")
            return row("u", number, before, self._image(other), T)
        self.rows[key] = (text, self.rows[key][1])
        self._run(f"UPDATE T SET NAME = {literal(text)} WHERE ID = {key}")
        # No more than what changed, and the key.
        return row("u", number, {"ID": key, "NAME": before["NAME"]}, {"ID": key, "NAME": text}, T)

    def _image(self, key: int) -> dict[str, Any]:
        name, note = self.rows[key]
        return {"ID": key, "NAME": name, "NOTE": note}

    def _of_pairs(self, number: int, text: str | None) -> str:
        key = self.random.randrange(8), self.random.choice(["a", "Z", "é", "~"])
        image = {"A": key[0], "B": key[1], "V": text}
        if key not in self.pairs:
            self.pairs[key] = text
            self._run(f"INSERT INTO PAIRS VALUES ({key[0]}, {literal(key[1])}, {literal(text)})")
            return row("c", number, None, image, PAIRS)
        before = {**image, "V": self.pairs[key]}
        self.pairs[key] = text
        self._run(f"UPDATE PAIRS SET V = {literal(text)} WHERE A = {key[0]} AND B = {literal(key[1])}")
        return row("u", number, before, image, PAIRS)

    def _of_bag(self, number: int, text: str | None) -> str:
        self.bag.append((number, text))
        self._run(f"INSERT INTO BAG VALUES ({number}, {literal(text)})")
        return row("c", number, None, {"N": number, "V": text}, BAG)

    def assert_same(self, found: Callable[[str], Sequence[tuple[Any, ...]]]) -> None:
        """`found`: the slave's rows by the name of the table."""
        assert {int(key): (name, note) for key, name, note in found("T")} == self.rows
        assert {(int(a), b): v for a, b, v in found("PAIRS")} == self.pairs
        bag = [(int(n), v) for n, v in found("BAG")]
        assert sorted(bag, key=repr) == sorted(self.bag, key=repr)


def literal(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"
