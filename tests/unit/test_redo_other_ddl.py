"""DDL is in the redo of the thread that ran it. The programs of other threads read rows with the old columns until they
are told."""

from pathlib import Path

import pytest

from sluice.model.change import Action
from sluice.model.names import Prefix
from sluice.vendors.stream.redo.definitions import MISREAD
from sluice.vendors.stream.redo.merger import Merger
from tests.unit.redo_output import COLUMNS, ONE, TWO, checkpoint, ddl, folder, insert, schema, transaction, write
from tests.unit.redo_stream import changes

WIDER = schema(columns=[*COLUMNS, {"name": "EMAIL", "type": "varchar2", "length": 10, "nullable": True}])


class Threads:
    """Two threads: the first one runs DDL; the second one writes."""

    def __init__(self, root: Path):
        self.root, self.stream = root / "threads", root / "stream"
        self.first = folder(self.root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(110)])
        self.second = folder(self.root, TWO, [*transaction(101, "2.1.1", [insert(0, 2)]), checkpoint(110)])
        self.merge()

    def merge(self) -> list[str]:
        """Merges with a new merge; returns the content of the stream."""
        Merger(self.root, self.stream, Prefix("ORA_")).merge_once()
        return [
            change.new["id"] if change.action is Action.INSERT and change.new else str(change.action)
            for change in changes(self.stream)
        ]

    def write(self, made: Path, scn: int, *payloads: str) -> None:
        write(made, [*transaction(scn, f"{scn}.1.1", payloads), checkpoint(scn + 1)])
        other = self.second if made == self.first else self.first
        write(other, [checkpoint(scn + 1)])


@pytest.mark.parametrize("shown", [False, True], ids=["not shown by its own thread", "shown by its own thread"])
@pytest.mark.parametrize("text", ["ADD (EMAIL VARCHAR2(10))", "DROP COLUMN NOTE", "SET UNUSED (NOTE)"])
def test_rows_that_were_read_with_former_columns_make_their_table_differ_and_no_other(
    text: str, shown: bool, tmp_path: Path
) -> None:
    """Each time, since a load in between may have repaired it. It ends when the program is told."""
    now = WIDER if text.startswith("ADD") else schema(columns=COLUMNS[:2])
    threads = Threads(tmp_path)
    threads.write(threads.first, 120, ddl(f"ALTER TABLE APP.T {text}"))
    assert threads.merge() == ["1", "2"]
    if shown:
        threads.write(threads.first, 125, insert(0, 3, of=now))
    threads.write(threads.second, 130, insert(0, 666), insert(1, 667), insert(2, 4, of=schema("OTHER")))
    threads.write(threads.second, 135, insert(0, 668))
    between = ["ALTER", "3"] if shown else []
    assert threads.merge() == ["1", "2", *between, "DIFFER", "4", "DIFFER"]
    assert {change.reason for change in changes(threads.stream) if change.reason} == {MISREAD}
    threads.write(threads.second, 140, insert(0, 5, of=now))
    threads.write(threads.first, 145, insert(0, 6, of=now))
    assert threads.merge()[-2:] == ["5", "6"]
    assert threads.merge().count("ALTER") == 1


@pytest.mark.parametrize(
    "text",
    [
        "ADD CONSTRAINT C UNIQUE (NAME)",
        "ADD (PRIMARY KEY (ID))",
        "ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS",
        "ADD PARTITION P2 VALUES LESS THAN (9)",
        "DROP CONSTRAINT C",
        "MODIFY (NAME VARCHAR2(200))",
        "MOVE ONLINE",
        "ENABLE ROW MOVEMENT",
    ],
)
def test_other_ddl_leaves_rows_as_they_read(text: str, tmp_path: Path) -> None:
    threads = Threads(tmp_path)
    threads.write(threads.first, 120, ddl(f"ALTER TABLE APP.T {text}"))
    threads.write(threads.second, 130, insert(0, 3))
    assert threads.merge() == ["1", "2", "3"]


def test_a_thread_knows_its_own_ddl_and_not_that_of_both(tmp_path: Path) -> None:
    threads = Threads(tmp_path)
    threads.write(threads.first, 120, ddl("ALTER TABLE APP.T ADD (E NUMBER)"))
    threads.write(threads.second, 125, ddl("ALTER TABLE APP.T ADD (F NUMBER)"))
    threads.write(threads.second, 130, insert(0, 3))
    threads.write(threads.first, 135, insert(0, 4))
    assert threads.merge() == ["1", "2", "DIFFER", "DIFFER"]
