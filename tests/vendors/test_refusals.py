"""What a slave's server refuses: each class of error, raised by a real server, and what an apply does with it.

A refusal of rows, whatever its number, concerns one table: `on_error: isolate` isolates it, and `on_conflict: reject`
rejects the change. What passes is retried. The error keeps the server's own code, its text, and the SQLSTATE.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from sluice.apply import net_changes
from sluice.database import errors, xml_images
from sluice.database.apply import ReplayOptions
from sluice.database.conflicts import (
    ChangeRefused,
    Collision,
    ColumnMissing,
    Conflict,
    Drift,
    SlaveTableMissing,
    TableForbidden,
    ValueUnfit,
)
from sluice.database.errors import TableFailure
from sluice.errors import SluiceError, Transient
from sluice.model.mask import Mask
from sluice.model.names import TableName
from tests.unit.changes import TABLE, History
from tests.vendors.contender import Contender
from tests.waiting import until

OTHER = TableName("public", "other")
Row = tuple[str | None, ...]


@dataclass(frozen=True)
class Case:
    """`by`: vendor → statements with which the slave's table comes to refuse the row; `{t}` is the table."""

    name: str
    by: dict[str, Sequence[str]]
    row: Row = ("1000", "abcdef")
    raised: tuple[type[SluiceError], ...] = (ValueUnfit, ChangeRefused)
    text: str = ""
    """A part of the server's text, in the languages of all vendors."""

    def __str__(self) -> str:
        return self.name


def _trigger(body: str) -> list[str]:
    """A trigger of MariaDB."""
    return [f"CREATE TRIGGER refuses BEFORE INSERT ON {{t}} FOR EACH ROW {body}"]


def _function(body: str) -> list[str]:
    """A trigger of PostgreSQL, also for sessions in which the slave's own triggers are silent."""
    return [
        f"CREATE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$",
        "CREATE TRIGGER refuses BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION refuses()",
        "ALTER TABLE {t} ENABLE ALWAYS TRIGGER refuses",
    ]


REFUSED = [
    Case("out of range", {
        "mysql": ["ALTER TABLE {t} MODIFY id tinyint"],
        "postgres": ["ALTER TABLE {t} ALTER id TYPE smallint"],
        "h2": ["ALTER TABLE {t} ALTER COLUMN \"id\" NUMBER(2)"],
    }, row=("100000", "x")),
    Case("too long", {
        "mysql": ["ALTER TABLE {t} MODIFY v varchar(3)"],
        "postgres": ["ALTER TABLE {t} ALTER v TYPE varchar(3)"],
        "h2": ["ALTER TABLE {t} ALTER COLUMN \"v\" VARCHAR(3)"],
    }),
    Case("no number", {
        "mysql": ["ALTER TABLE {t} MODIFY v int"],
        "postgres": ["ALTER TABLE {t} ALTER v TYPE int USING NULL"],
        "h2": ["ALTER TABLE {t} ALTER COLUMN \"v\" NUMBER(9)"],
    }),
    Case("no date", {"mysql": ["ALTER TABLE {t} MODIFY v datetime"]}),
    Case("no label", {"mysql": ["ALTER TABLE {t} MODIFY v enum('a', 'b')"]}),
    Case("no value", {
        "mysql": ["ALTER TABLE {t} MODIFY v varchar(100) NOT NULL"],
        "postgres": ["ALTER TABLE {t} ALTER v SET NOT NULL"],
        "h2": ["ALTER TABLE {t} ALTER COLUMN \"v\" SET NOT NULL"],
    }, row=("1000", None)),
    Case("no value of the slave's own column", {
        "mysql": ["ALTER TABLE {t} ADD own int NOT NULL"],
        "postgres": ["ALTER TABLE {t} ADD own int NOT NULL"],
        "h2": ["ALTER TABLE {t} ADD COLUMN OWN INT NOT NULL"],
    }),
    Case("a broken check", {
        "mysql": ["ALTER TABLE {t} ADD CONSTRAINT low CHECK (id < 10)"],
        "postgres": ["ALTER TABLE {t} ADD CONSTRAINT low CHECK (id < 10)"],
        "h2": ["ALTER TABLE {t} ADD CONSTRAINT LOW CHECK (\"id\" < 10)"],
    }),
    Case("a trigger's SIGNAL", {
        "mysql": _trigger("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not here'"),
        "postgres": _function("RAISE EXCEPTION 'not here'"),
    }, text="not here"),
    Case("a number that nobody knows", {
        "mysql": _trigger("SIGNAL SQLSTATE '45999' SET MESSAGE_TEXT = 'not here', MYSQL_ERRNO = 51234"),
    }, text="not here"),
    Case("a trigger that divides by zero", {"mysql": _trigger("SET NEW.id = 1 DIV (NEW.id - NEW.id)")}),
    Case("a trigger that needs a function that is gone", {"mysql": _trigger("SET NEW.id = no_such_function(NEW.id)")}),
    Case("a trigger that needs a table that is gone", {
        "mysql": _trigger("INSERT INTO no_such_table VALUES (NEW.id)"),
    }, text="no_such_table"),
    Case("a trigger that may not", {
        "mysql": _trigger("INSERT INTO mysql.func VALUES ()"),
    }, raised=(TableForbidden,), text="denied"),
    Case("a view that is broken in place of the table", {
        "mysql": ["CREATE TABLE gone (id int, v varchar(9))", "DROP TABLE {t}", "CREATE VIEW {t} AS SELECT * FROM gone",
                  "DROP TABLE gone"],
    }, raised=(SlaveTableMissing, ColumnMissing, ValueUnfit, ChangeRefused)),
    Case("a table that is gone", {name: ["DROP TABLE {t}"] for name in ("mysql", "postgres", "h2")},
         raised=(SlaveTableMissing,)),
    Case("a column that is gone", {
        "mysql": ["ALTER TABLE {t} DROP COLUMN v"],
        "postgres": ["ALTER TABLE {t} DROP COLUMN v"],
        "h2": ["ALTER TABLE {t} DROP COLUMN \"v\""],
    }, raised=(ColumnMissing,)),
    Case("a unique value that another row has", {
        "mysql": ["INSERT INTO {t} VALUES (1, 'abcdef')", "ALTER TABLE {t} ADD UNIQUE (v)"],
        "postgres": ["INSERT INTO {t} VALUES (1, 'abcdef')", "ALTER TABLE {t} ADD UNIQUE (v)"],
        "h2": ["INSERT INTO {t} VALUES (1, 'abcdef')", "ALTER TABLE {t} ADD UNIQUE (\"v\")"],
    }, raised=(Drift,)),
]  # fmt: skip


def _place(target: Contender, table: TableName = TABLE) -> str:
    return f'"{table.name}"' if target.oracle or target.info.vendor == "mysql" else f"public.{table.name}"


def _vendor(target: Contender) -> str:
    return "h2" if target.oracle else target.info.vendor


def _given(target: Contender, statements: Sequence[str]) -> None:
    for statement in statements:
        target.change(statement.replace("{t}", _place(target)))


def _inserted(row: Row) -> History:
    history = History()
    history.insert(*row)
    return history


def _merged(target: Contender, history: History, known: Callable[[], None] = lambda: None) -> None:
    session, merger = target.applying()
    _ = merger.targets[TABLE]  # is read
    known()
    with session.transaction():
        merger.begin()
        merger.merge([net_changes.reduce(net_changes.events(history.window(), history.key, xml_images))])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("late", [False, True], ids=["before the apply", "under the apply"])
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_the_slave_refuses_concerns_one_table_whatever_its_number(
    target: Contender, case: Case, late: bool
) -> None:
    """`late`: after the apply has read what the table is like."""
    statements = case.by.get(_vendor(target))
    if statements is None:
        return
    target.create()
    history = _inserted(case.row)
    if not late:
        _given(target, statements)
    with pytest.raises((TableFailure, Collision)) as merged:
        _merged(target, history, (lambda: _given(target, statements)) if late else (lambda: None))
    assert isinstance(merged.value, TableFailure | Collision) and merged.value.table == TABLE
    # One by one, as after a collision, or with `on_conflict: reject`.
    session, merger = target.applying()
    with pytest.raises(case.raised) as replayed, session.transaction():
        merger.begin()
        merger.replayer().replay(history.changes())
    assert isinstance(replayed.value, TableFailure) and replayed.value.table == TABLE
    assert case.text in str(replayed.value)
    if isinstance(replayed.value, Conflict):
        with session.transaction():
            merger.begin()
            done = merger.replayer().replay(history.changes(), ReplayOptions(reject=True))
        assert [reject.change.new["id"] for reject in done.rejects] == [case.row[0]]
        assert case.text in done.rejects[0].reason


def test_the_text_of_a_refusal_is_not_shown_where_it_may_hold_a_masked_value(target: Contender) -> None:
    target.create()
    _given(target, REFUSED[1].by[_vendor(target)])
    session = target.session(autocommit=False)
    silent = target.vendor.sessions.begin_applying(session, "DEMO_")
    merger = target.vendor.applying.Merger(session, cascades=not silent, mask=Mask(("public.t.v",)))
    with pytest.raises(SluiceError) as raised, session.transaction():
        merger.begin()
        merger.replayer().replay(_inserted(("1", "secret value")).changes())
    assert "secret" not in str(raised.value) and "masked" in str(raised.value)


RAISED: dict[str, list[tuple[str, type[errors.DatabaseError], str, str | None]]] = {
    "mysql": [
        ("INSERT INTO t VALUES (100000000000, 'x')", errors.StatementFailed, "1264", "22003"),
        ("INSERT INTO t VALUES (1, REPEAT('x', 200))", errors.StatementFailed, "1406", "22001"),
        ("INSERT INTO t VALUES (NULL, 'x')", errors.NotNullViolation, "1048", "23000"),
        ("INSERT INTO t VALUES (0, 'x')", errors.UniqueViolation, "1062", "23000"),
        ("INSERT INTO c VALUES (1, 99)", errors.ForeignKeyViolation, "1452", "23000"),
        ("INSERT INTO c VALUES (-1, 0)", errors.CheckViolation, "4025", "23000"),
        ("SELECT * FROM not_there", errors.UndefinedTable, "1146", "42S02"),
        ("SELECT not_there FROM t", errors.UndefinedTable, "1054", "42S22"),
        ("ALTER TABLE t DROP INDEX not_there", errors.UndefinedObject, "1091", "42000"),
        ("CREATE TABLE t (a int)", errors.StatementFailed, "1050", "42S01"),
        ("ALTER TABLE t ADD COLUMN v int", errors.StatementFailed, "1060", "42S21"),
        ("CREATE DATABASE not_allowed", errors.LoginRefused, "1044", "42000"),
        ("SELECT * FROM mysql.user", errors.DatabaseRefused, "1142", "42000"),
        ("SELEC 1", errors.StatementFailed, "1064", "42000"),
        ("INSERT INTO full SELECT seq, REPEAT('x', 200) FROM seq_1_to_1000", errors.StatementInterrupted, "1114",
         "HY000"),
        ("SIGNAL SQLSTATE '45999' SET MESSAGE_TEXT = 'x', MYSQL_ERRNO = 51234", errors.StatementFailed, "51234",
         "45999"),
        ("SET STATEMENT max_statement_time = 0.1 FOR SELECT SLEEP(30)", errors.Contended, "1969", "70100"),
        ("KILL CONNECTION_ID()", errors.DatabaseUnreachable, "1927", "70100"),
    ],
    "postgres": [
        ("INSERT INTO public.t VALUES (100000000000, 'x')", errors.StatementFailed, "", "22003"),
        ("INSERT INTO public.t VALUES (1, repeat('x', 200))", errors.StatementFailed, "", "22001"),
        ("INSERT INTO public.t VALUES (NULL, 'x')", errors.NotNullViolation, "", "23502"),
        ("INSERT INTO public.t VALUES (0, 'x')", errors.UniqueViolation, "", "23505"),
        ("INSERT INTO public.c VALUES (1, 99)", errors.ForeignKeyViolation, "", "23503"),
        ("INSERT INTO public.c VALUES (-1, 0)", errors.CheckViolation, "", "23514"),
        ("SELECT * FROM not_there", errors.UndefinedTable, "", "42P01"),
        ("CREATE TABLE public.t (a int)", errors.StatementFailed, "", "42P07"),
        ("SELEC 1", errors.StatementFailed, "", "42601"),
        ("SELECT pg_terminate_backend(pg_backend_pid())", errors.DatabaseUnreachable, "", "57P01"),
    ],
    "h2": [
        ("INSERT INTO \"t\" VALUES (1, RPAD('x', 4100, 'x'))", errors.StatementFailed, "ORA-12899", None),
        ("INSERT INTO \"t\" VALUES (NULL, 'x')", errors.NotNullViolation, "ORA-1400", None),
        ("INSERT INTO \"t\" VALUES (0, 'x')", errors.UniqueViolation, "ORA-1", None),
        ("INSERT INTO C VALUES (1, 99)", errors.ForeignKeyViolation, "ORA-2291", None),
        ("INSERT INTO C VALUES (-1, 0)", errors.StatementFailed, "ORA-2290", None),
        ("SELECT * FROM NOT_THERE", errors.UndefinedTable, "ORA-942", None),
        ("CREATE TABLE C (A INT)", errors.StatementFailed, "ORA-955", None),
    ],
}  # fmt: skip
CHILD = {
    "mysql": ("CREATE TABLE c (id int CHECK (id > 0), t int, FOREIGN KEY (t) REFERENCES t (id))",
              "SET SESSION max_heap_table_size = 16384",
              "CREATE TABLE full (id int, v varchar(200)) ENGINE = MEMORY"),
    "postgres": ("CREATE TABLE public.c (id int CHECK (id > 0), t int REFERENCES public.t (id))",),
    "h2": ("CREATE TABLE C (ID INT CHECK (ID > 0), T INT REFERENCES \"t\" (\"id\"))",),
}  # fmt: skip


def test_an_error_keeps_the_servers_code_its_text_and_its_sqlstate(target: Contender) -> None:
    target.create()
    target.merge(_inserted(("0", "there")))
    admin = target.session()
    for statement in CHILD[_vendor(target)]:
        admin.execute(statement.encode())
    for statement, kind, code, sqlstate in RAISED[_vendor(target)]:
        session = target.session()
        with pytest.raises(errors.DatabaseError) as raised:
            session.execute(statement.encode())
            session.ping()  # where the server ends the session after it has answered
        error = raised.value
        assert isinstance(error, kind), (statement, error)
        assert (error.server_code, error.sqlstate) == (code, sqlstate) or kind is errors.DatabaseUnreachable, statement
        assert error.reason and error.server == target.info.server, statement


def test_what_passes_is_retried_and_concerns_no_table(target: Contender) -> None:
    """A row that another session holds, and a connection that is cut."""
    target.create()
    target.merge(_inserted(("0", "there")))
    history = History()
    history.rows = [("0", "there")]
    history.update(("0", "there"), ("0", "new"))
    holder, (session, merger) = target.writer(), target.applying()
    holder.begin()
    holder.do(f"UPDATE {_place(target)} SET \"v\" = 'held'")
    session.limit_lock_waits(1)
    with pytest.raises(Transient) as waited, session.transaction():
        merger.begin()
        merger.replayer().replay(history.changes())
    assert not isinstance(waited.value, TableFailure)
    holder.rollback()
    if target.oracle:
        return  # an in-memory database has no connection
    target.vendor.sessions.cut(session)
    with pytest.raises(errors.DatabaseUnreachable):
        _ = session.execute(b"SELECT 1")
    until(lambda: session.closed or session.broken)
