"""The driver itself, without a server: the meaning of its errors, and the binding of values."""

from datetime import UTC, datetime

import oracledb
import pytest
from oracledb import errors as driver_errors

from sluice.database import errors as kinds
from sluice.errors import Terminal, Transient
from sluice.model.connection import ConnectionInfo
from sluice.vendors.oracle import errors
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.connection import RAW_BYTES, TEXT_BYTES, bound, connect, sizes, without_and_with_lobs
from sluice.vendors.oracle.session import EmptyLob, binds_of, native_parameters

PLACE = "sluice@db:1521/FREEPDB1"


def raised(code: int, text: str) -> oracledb.Error:
    """The error that the driver raises for a server's answer."""
    info = driver_errors._Error(message=f"ORA-{code:05}: {text}", code=code)
    return info.exc_type(info)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1017, kinds.LoginRefused),
        (28000, kinds.LoginRefused),
        (12514, kinds.DatabaseUnreachable),
        (1034, kinds.DatabaseUnreachable),
        (3113, kinds.DatabaseUnreachable),
        (60, kinds.Contended),
        (1555, kinds.SnapshotTooOld),
        (8176, kinds.SnapshotTooOld),
        (8103, kinds.Contended),
        (1410, kinds.Contended),
        (603, kinds.DatabaseUnreachable),
        (54, kinds.LockNotAvailable),
        (1653, kinds.StatementInterrupted),
        (1, kinds.UniqueViolation),
        (2291, kinds.ForeignKeyViolation),
        (1400, kinds.NotNullViolation),
        (942, kinds.UndefinedTable),
        (904, kinds.UndefinedTable),
        (600, kinds.StatementFailed),
        (12899, kinds.StatementFailed),
    ],
)
def test_errors_of_the_server_are_classified_by_their_code(code: int, kind: type[Exception]) -> None:
    found = errors.converted(raised(code, "said so"), PLACE)
    assert type(found) is kind and PLACE in str(found) and found.server == PLACE


def test_a_session_that_died_is_unreachable_whatever_the_driver_calls_it() -> None:
    """The driver reports DPY-4011 for ORA-03113, and calls ORA-00600 recoverable, which it is not."""
    lost = errors.converted(raised(3113, "end-of-file on communication channel"), PLACE)
    assert "DPY-4011" in str(lost) and isinstance(lost, Transient)
    assert isinstance(errors.converted(raised(600, "internal error code"), PLACE), Terminal)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (driver_errors.ERR_CALL_TIMEOUT_EXCEEDED, kinds.Contended),
        (driver_errors.ERR_CONNECTION_CLOSED, kinds.DatabaseUnreachable),
        (driver_errors.ERR_NOT_CONNECTED, kinds.DatabaseUnreachable),
    ],
)
def test_timeouts_of_the_driver_are_transient(number: int, kind: type[Exception]) -> None:
    """A call that timed out leaves the session alive; a lost connection does not."""
    info = driver_errors._create_err(number, timeout=5)
    found = errors.converted(info.exc_type(info), PLACE)
    assert type(found) is kind and isinstance(found, Transient)


def test_a_statement_that_was_canceled_is_tried_again() -> None:
    found = errors.converted(raised(1013, "user requested cancel of current operation"), PLACE)
    assert type(found) is kinds.Contended


def test_a_wrapped_error_is_still_classified() -> None:
    wrapped = "ORA-04088: error during execution of trigger 'S.T'\nORA-20001: not here\nORA-06512: at \"S.T\", line 3"
    found = errors.converted(oracledb.DatabaseError(driver_errors._Error(wrapped)), PLACE)
    assert (found.server_code, errors.of_row(found), errors.of_trigger(found)) == ("ORA-20001", True, True)
    parallel = "ORA-12801: error signaled in parallel query server P001\nORA-01555: snapshot too old"
    old = errors.converted(oracledb.DatabaseError(driver_errors._Error(parallel)), PLACE)
    assert isinstance(old, kinds.SnapshotTooOld)
    deferred = "ORA-02091: transaction rolled back\nORA-00001: unique constraint (S.U) violated"
    found = errors.converted(oracledb.DatabaseError(driver_errors._Error(deferred)), PLACE)
    assert isinstance(found, kinds.UniqueViolation)


def test_a_message_has_no_address_of_a_page() -> None:
    assert "http" not in str(errors.converted(raised(942, "table or view does not exist"), PLACE))


def test_each_code_has_one_meaning() -> None:
    lists = [value.split() for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)]
    codes = [code for codes in lists for code in codes if code.startswith(("ORA-", "DPY-", "DPI-"))]
    of_rows = set(errors.OF_ROWS)
    assert sorted(code for code in errors.KINDS) == sorted(set(codes) - (of_rows - errors.KINDS.keys()))


def test_a_server_that_is_not_there_is_unreachable() -> None:
    info = ConnectionInfo("oracle", "127.0.0.1", 1, "FREEPDB1", "sluice", "secret", {"sslmode": "disable"})
    with pytest.raises(kinds.DatabaseUnreachable) as told:
        connect(info, application="test")
    assert "127.0.0.1:1" in str(told.value) and "secret" not in str(told.value)


def test_values_that_the_driver_would_take_for_another_type_are_named() -> None:
    """The driver binds a datetime as a DATE, which has no fraction, and a long text as a LONG, which few statements
    accept."""
    longest, most = "😀" * (TEXT_BYTES // 4), b"x" * RAW_BYTES
    assert sizes([{"a": longest, "b": most}]) == {}
    found = sizes([{"t": datetime(2024, 1, 1, tzinfo=UTC), "a": longest}, {"a": longest[1:] + "éé!", "b": most + b"x"}])
    assert found == {"t": oracledb.DB_TYPE_TIMESTAMP, "a": oracledb.DB_TYPE_CLOB, "b": oracledb.DB_TYPE_BLOB}


def test_an_empty_lob_is_bound_as_a_lob_which_else_would_be_null() -> None:
    """The driver sends other empty texts as NULL."""
    text, data = ColumnTexts("C", "CLOB"), ColumnTexts("B", "BLOB")
    rows = [{"c": text.bind(""), "b": data.bind("\\x")}, {"c": text.bind(None), "b": data.bind(None)}]
    assert sizes(rows) == {"c": oracledb.DB_TYPE_CLOB, "b": oracledb.DB_TYPE_BLOB}
    assert [bound(row) for row in rows] == [{"c": "", "b": b""}, {"c": None, "b": None}]
    assert (ColumnTexts("V", "VARCHAR2(9 CHAR)").bind(""), ColumnTexts("R", "RAW(9)").bind("\\x")) == (None, None)


def test_rows_that_need_a_lob_go_apart_from_those_that_need_none() -> None:
    rows = [{"c": "x", "n": 1}, {"c": EmptyLob.TEXT, "n": 2}, {"c": None, "n": 3}, {"c": "x" * 5_000, "n": 4}]
    assert without_and_with_lobs(rows) == [[0, 2], [1, 3]]
    assert without_and_with_lobs(rows[:1]) == [[0]]


@pytest.mark.parametrize(
    ("type_name", "text", "bound_as"),
    [
        ("CHAR(4 CHAR)", "é", "é   "), ("CHAR(4 BYTE)", "é", "é  "), ("NCHAR(4)", "😀", "😀  "),
        ("CHAR(2 CHAR)", "ab", "ab"), ("VARCHAR2(4 CHAR)", "a", "a"), ("CHAR(4 CHAR)", "a  ", "a   "),
        ("CHAR(2 BYTE)", "", "  "),
    ],
)  # fmt: skip
def test_a_text_of_fixed_length_is_bound_with_its_blanks(type_name: str, text: str, bound_as: str) -> None:
    """The server pads a literal for a comparison, but not a parameter."""
    assert ColumnTexts("C", type_name).bind(text) == bound_as


def test_a_lob_is_compared_with_one_of_its_own_kind() -> None:
    for kind in ("CLOB", "NCLOB", "BLOB"):
        assert f'DBMS_LOB.COMPARE(t."C", TO_{kind}(:v)) = 0' in ColumnTexts("C", kind).same("t", ":v")


def test_parameters_of_all_vendors_become_oracles_and_no_reserved_word_is_one() -> None:
    text, values = native_parameters(
        "UPDATE x SET \"file\" = %(file)s WHERE a LIKE 'y%%' AND b = %(file)s", {"file": 1, "z": 2}
    )
    assert (text, values) == ("UPDATE x SET \"file\" = :p_file WHERE a LIKE 'y%' AND b = :p_file", {"p_file": 1})


def test_a_colon_in_a_name_or_a_literal_is_no_parameter() -> None:
    assert binds_of("SELECT \"a:b\", ':c' FROM t WHERE x = :d AND y = :e OR z = :d") == ["d", "e"]
