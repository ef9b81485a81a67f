"""A MariaDB that accepts only TLS, and proves its identity, or does not."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from devstack.account import new_folder, service_account
from devstack.mariadb import MariaDBServer
from sluice.database.errors import ServerUnproved
from sluice.model.connection import ConnectionInfo
from sluice.vendors.mysql.connection import connect
from tests.authority import Authority
from tests.conftest import MARIADB_SETTINGS


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[ConnectionInfo, Path, Path]]:
    """A server that refuses connections without TLS, known as localhost; its certificate authority, and another one."""
    folder = new_folder("sluice-test-tls-")
    authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
    certificate, key = authority.certify("localhost")
    if account := service_account():
        account.own(key)
    tls = {"ssl-cert": str(certificate), "ssl-key": str(key), "require-secure-transport": "ON"}
    server = MariaDBServer(folder / "server", settings={**MARIADB_SETTINGS, **tls})
    try:
        server.start(die_with_parent=True)
        server.create_account("applier", "slave")
        yield server.info("slave", "applier"), authority.file, stranger.file
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def session_with(info: ConnectionInfo, **options: str) -> str:
    with connect(replace(info, options=options), application="test") as session:
        row = session.run("SHOW SESSION STATUS LIKE 'Ssl_version'").fetchone()
        assert row is not None
        return str(row[1])


def test_a_server_that_proves_who_it_is_gets_the_password_and_all_is_encrypted(
    secured: tuple[ConnectionInfo, Path, Path],
) -> None:
    info, authority, _ = secured
    named = replace(info, host="localhost")
    assert session_with(named, sslmode="verify-full", sslrootcert=str(authority)).startswith("TLS")
    assert session_with(info, sslmode="verify-ca", sslrootcert=str(authority)).startswith("TLS")
    assert session_with(info, sslmode="require").startswith("TLS")


def test_one_that_does_not_gets_no_password(secured: tuple[ConnectionInfo, Path, Path]) -> None:
    info, authority, stranger = secured
    for host, trusted in (("localhost", stranger), ("127.0.0.1", authority)):
        with pytest.raises(ServerUnproved, match="sslrootcert"):
            session_with(replace(info, host=host), sslmode="verify-full", sslrootcert=str(trusted))
