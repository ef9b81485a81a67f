"""The meaning of each error of MySQL and MariaDB: who must act, and how services classify it."""

import pymysql
import pytest

from sluice.database import errors
from sluice.database.errors import DatabaseError
from sluice.errors import Terminal, Transient
from sluice.vendors.mysql.errors import KINDS, TRANSACTION_LOST, converted, number_of, of_value

MEANINGS: dict[type[DatabaseError], tuple[int, ...]] = {
    # Another try may do.
    errors.DatabaseUnreachable: (1040, 1053, 1158, 1159, 1160, 1161, 1203, 1927, 2002, 2003, 2006, 2013),
    errors.LockNotAvailable: (1205, 3572),
    errors.Contended: (1020, 1213, 1317, 1412, 1637, 1969, 3024, 3100),
    errors.StatementInterrupted: (1021, 1114, 1290, 1792, 1836),
    # A person, or the policy of conflicts.
    errors.LoginRefused: (1044, 1045, 1049, 1130, 1698),
    errors.DatabaseRefused: (1142, 1227, 3948, 4166),
    errors.UniqueViolation: (1062,),
    errors.ForeignKeyViolation: (1451, 1452),
    errors.NotNullViolation: (1048, 1364),
    errors.CheckViolation: (3819, 4025),
    errors.UndefinedTable: (1051, 1054, 1146),
    errors.UndefinedObject: (1091, 1176),
    errors.StatementFailed: (1064, 1071, 1118, 1153, 1170, 1264, 1265, 1267, 1292, 1366, 1406, 3140, 3750),
}
TRANSIENT = (errors.DatabaseUnreachable, errors.StatementInterrupted, errors.Contended, errors.LockNotAvailable)


@pytest.mark.parametrize(
    ("number", "kind"), [(number, kind) for kind, numbers in MEANINGS.items() for number in numbers]
)
def test_an_error_is_what_its_number_says_and_keeps_what_the_server_said(
    number: int, kind: type[DatabaseError]
) -> None:
    driver = pymysql.err.OperationalError if number >= 2000 and number < 3000 else pymysql.err.ProgrammingError
    with pytest.raises(DatabaseError) as raised:
        # As a session raises it.
        raise converted(driver(number, "as the server\n put it"), "sluice@db2:3306/shop") from None
    made = raised.value
    assert type(made) is kind
    assert isinstance(made, Transient if kind in TRANSIENT else Terminal)
    # Curly quotes around what may hold a value: all but refused log-ins, and what the driver itself says.
    plain = kind is errors.LoginRefused or 2000 <= number < 3000
    said = "as the server put it" if plain else f"“as the server put it” (error {number})"
    assert str(made).startswith(f"sluice@db2:3306/shop: {said}")
    assert (made.server_code, made.reason, number_of(made)) == (str(number), said, number)


def test_after_what_ends_a_transaction_it_is_done_again_and_what_is_refused_for_its_values_never_is() -> None:
    assert all(issubclass(KINDS[number], Transient) for number in TRANSACTION_LOST)
    again = [number for number, kind in KINDS.items() if issubclass(kind, Transient)]
    assert not any(of_value(converted(pymysql.err.DataError(number, "x"), "there")) for number in again)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (3, "Error writing file '/tmp/MLfd=1' (Errcode: 28 \"No space left on device\")"),
        (1026, "Error writing file './shop/t.MAI' (Errcode: 122 \"Disk quota exceeded\")"),
        (1030, 'Got error 28 "No space left on device" from storage engine InnoDB'),
    ],
)
def test_a_full_disk_passes_wherever_the_server_met_it(number: int, text: str) -> None:
    assert type(converted(pymysql.err.OperationalError(number, text), "there")) is errors.StatementInterrupted


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), errors.DatabaseUnreachable),
        (FileNotFoundError(2, "No such file or directory"), errors.StatementFailed),
        (pymysql.err.InterfaceError(0, ""), errors.DatabaseUnreachable),
        (pymysql.err.OperationalError("Packet sequence number wrong"), errors.DatabaseUnreachable),
        (pymysql.err.OperationalError(2003, "certificate verify failed: unable to get"), errors.ServerUnproved),
        (pymysql.err.InternalError(99999, "never heard of"), errors.StatementFailed),
    ],
)
def test_the_drivers_own_errors_are_classified(error: BaseException, kind: type[DatabaseError]) -> None:
    assert type(converted(error, "there")) is kind
