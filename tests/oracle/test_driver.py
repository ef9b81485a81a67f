"""The driver's side, against the driver itself and without a server: what its errors mean, what it is handed."""

from datetime import UTC, datetime

import oracledb
import pytest
from oracledb import errors as driver_errors

from sluice.database import errors as kinds
from sluice.errors import Terminal, Transient
from sluice.model.connection import ConnectionInfo
from sluice.vendors.oracle import errors
from sluice.vendors.oracle.connection import LONG_TEXT, connect, sizes
from sluice.vendors.oracle.session import binds_of, native_parameters

PLACE = "sluice@db:1521/FREEPDB1"


def raised(code: int, text: str) -> oracledb.Error:
    """As the driver raises what a server answered."""
    info = driver_errors._Error(message=f"ORA-{code:05}: {text}", code=code)
    return info.exc_type(info)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1017, kinds.DatabaseRefused),
        (28000, kinds.DatabaseRefused),
        (12514, kinds.DatabaseUnreachable),
        (1034, kinds.DatabaseUnreachable),
        (3113, kinds.DatabaseUnreachable),
        (60, kinds.Contended),
        (1555, kinds.SnapshotTooOld),
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
def test_a_servers_error_is_told_by_its_code(code: int, kind: type[Exception]) -> None:
    found = errors.converted(raised(code, "said so"), PLACE)
    assert type(found) is kind and PLACE in str(found) and found.place == PLACE


def test_a_session_that_died_is_unreachable_whatever_the_driver_calls_it() -> None:
    """The driver says DPY-4011 for ORA-03113, and calls ORA-00600 recoverable, which it is not."""
    lost = errors.converted(raised(3113, "end-of-file on communication channel"), PLACE)
    assert "DPY-4011" in str(lost) and isinstance(lost, Transient)
    assert isinstance(errors.converted(raised(600, "internal error code"), PLACE), Terminal)


def test_what_wraps_an_error_does_not_hide_it() -> None:
    wrapped = "ORA-04088: error during execution of trigger 'S.T'\nORA-20001: not here\nORA-06512: at \"S.T\", line 3"
    said = errors.refusal(errors.converted(oracledb.DatabaseError(driver_errors._Error(wrapped)), PLACE))
    assert (said.code, said.of_row, said.of_trigger) == ("ORA-20001", True, True)
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
    """It binds a datetime as a DATE, which has no fraction, and a long text as a LONG, which few statements take."""
    found = sizes([{"a": "x", "t": datetime(2024, 1, 1, tzinfo=UTC)}, {"a": "x" * (LONG_TEXT + 1), "b": b"x" * 9_000}])
    assert found == {"t": oracledb.DB_TYPE_TIMESTAMP, "a": oracledb.DB_TYPE_CLOB, "b": oracledb.DB_TYPE_BLOB}


def test_parameters_of_all_vendors_become_oracles_and_no_reserved_word_is_one() -> None:
    text, values = native_parameters(
        "UPDATE x SET \"file\" = %(file)s WHERE a LIKE 'y%%' AND b = %(file)s", {"file": 1, "z": 2}
    )
    assert (text, values) == ("UPDATE x SET \"file\" = :p_file WHERE a LIKE 'y%' AND b = :p_file", {"p_file": 1})


def test_a_colon_in_a_name_or_a_literal_is_no_parameter() -> None:
    assert binds_of("SELECT \"a:b\", ':c' FROM t WHERE x = :d AND y = :e OR z = :d") == ["d", "e"]
