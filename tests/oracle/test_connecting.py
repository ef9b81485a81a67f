"""How the driver connects to a server, and what happens if it refuses, is silent, or does not prove its identity.

The driver is Oracle's own; the servers are stand-ins (`tests/oracle/listener.py`), so that no session is established.
"""

import ssl
from pathlib import Path

import oracledb
import pytest

from sluice.database import errors as kinds
from sluice.errors import Transient
from sluice.model.airflow_connection import converted
from sluice.model.connection import ConnectionInfo
from sluice.vendors.oracle.connection import connect
from tests.authority import Authority
from tests.errors import raises_code
from tests.oracle.listener import listening, refusal

NO_SERVICE, NO_SID, FULL = 12514, 12505, 12516
PLAIN = {"sslmode": "disable"}


class Given:
    """A connection of Airflow."""

    conn_type, host, port, login, password = "oracle", "localhost", None, "sluice", "secret"

    def __init__(self, schema: str | None = None):
        self.schema = schema


def at(port: int, **options: str) -> ConnectionInfo:
    return ConnectionInfo("oracle", "localhost", port, "SHOP", "sluice", "secret", options)


def failure(info: ConnectionInfo) -> Exception:
    with pytest.raises((kinds.DatabaseError, Transient)) as found:
        connect(info, application="test")
    assert "secret" not in str(found.value) and info.server in str(found.value)
    return found.value


@pytest.mark.parametrize(
    ("extra", "schema", "asked"),
    [
        ({}, "SHOP", "(SERVICE_NAME=SHOP)"),
        ({"service_name": "shop.example"}, "ignored", "(SERVICE_NAME=shop.example)"),
        ({"sid": "ORCL"}, None, "(SID=ORCL)"),
    ],
)
def test_the_listener_is_asked_for_the_service_or_the_sid(
    extra: dict[str, str], schema: str | None, asked: str
) -> None:
    info = converted(Given(schema), {**extra, **PLAIN}, "shop", "oracle")
    with listening(refusal(NO_SERVICE)) as listener:
        failure(ConnectionInfo.from_dict(info.to_dict() | {"port": listener.port}))
    assert asked in listener.descriptor and "(PROGRAM=sluice)" in listener.descriptor
    assert "EXPIRE_TIME" in listener.descriptor, "a server that is gone would be waited for forever"


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"sid": "A", "service_name": "B"}, "has service_name and sid: leave one of them out"),
        ({"thick_mode": "maybe"}, "thick_mode 'maybe'; it must be true or false"),
        ({"wallet_location": "/w", "sslmode": "disable"}, "a wallet_location, and sslmode 'disable'"),
    ],
)
def test_extras_that_cannot_be_are_refused(extra: dict[str, str], said: str) -> None:
    with raises_code("connection-unusable", match=said):
        converted(Given("SHOP"), extra, "shop", "oracle")


@pytest.mark.parametrize(
    ("code", "said"), [(NO_SERVICE, 'Service "SHOP" is not registered'), (FULL, "ORA-12516"), (NO_SID, "ORA-12505")]
)
def test_a_refusal_of_a_listener_is_transient(code: int, said: str) -> None:
    with listening(refusal(code)) as listener:
        found = failure(at(listener.port, **PLAIN))
    assert isinstance(found, kinds.DatabaseUnreachable) and said in str(found)


def test_a_silent_server_times_out_and_delays_no_other_connection() -> None:
    with listening(None) as silent, listening(refusal(FULL)) as other:
        found = failure(at(silent.port, connect_timeout="1", **PLAIN))
        assert isinstance(found, kinds.DatabaseUnreachable) and "did not answer within 1 s" in str(found)
        assert "ORA-12516" in str(failure(at(other.port, **PLAIN)))


def test_a_server_that_hangs_up_is_unreachable() -> None:
    with listening(b"") as listener:
        assert isinstance(failure(at(listener.port, **PLAIN)), kinds.DatabaseUnreachable)


def test_a_server_must_prove_its_identity_as_configured(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    wallet = tmp_path / "wallet"
    wallet.mkdir()
    (wallet / "ewallet.pem").write_bytes(ours.file.read_bytes())
    root = {"sslrootcert": str(ours.file)}
    by_wallet = {"wallet_location": str(wallet)}
    tried = [
        (ours, "localhost", {"sslmode": "verify-full", **root}, True),
        (ours, "elsewhere", {"sslmode": "verify-full", **root}, False),
        (ours, "elsewhere", {"sslmode": "verify-ca", **root}, True),
        (others, "localhost", {"sslmode": "verify-ca", **root}, False),
        (others, "elsewhere", {"sslmode": "require"}, True),
        (ours, "localhost", by_wallet, True),
        (others, "localhost", by_wallet, False),
        (ours, "elsewhere", {"ssl_server_cert_dn": "CN=elsewhere", **by_wallet}, True),
        (ours, "localhost", {"ssl_server_cert_dn": "CN=elsewhere", **by_wallet}, False),
    ]
    for authority, host, options, proved in tried:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.certify(host))
        with listening(refusal(FULL), context) as listener:
            found = failure(at(listener.port, **options))
        kind = kinds.DatabaseUnreachable if proved else kinds.ServerUnproved
        assert type(found) is kind, (host, options, found)
        assert ("ORA-12516" in str(found)) == proved


def test_a_wallet_that_is_not_there_waits_for_a_person(tmp_path: Path) -> None:
    with listening(refusal(FULL)) as listener:
        found = failure(at(listener.port, wallet_location=str(tmp_path)))
    assert isinstance(found, kinds.DatabaseRefused) and "ewallet.pem was not found" in str(found)


def test_thick_mode_is_for_the_whole_process_or_is_refused() -> None:
    oracledb.enable_thin_mode()  # type: ignore[no-untyped-call]
    found = failure(at(1, thick_mode="true"))
    assert isinstance(found, kinds.DatabaseRefused) and "thick mode cannot be used" in str(found)
