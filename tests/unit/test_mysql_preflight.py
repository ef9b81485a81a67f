"""What a server of MySQL or MariaDB needs to be a slave's."""

from dataclasses import replace

import pytest

from sluice.model.issue import Severity
from sluice.vendors.mysql.accounts import Server, of_server

WELL = Server(
    mariadb=True,
    version=(10, 6, 0),
    local_infile=True,
    flush_at_commit=1,
    read_only=False,
    logs_statements=False,
    page=16384,
)


@pytest.mark.parametrize("server", [WELL, replace(WELL, mariadb=False, version=(8, 0, 0))], ids=["MariaDB", "MySQL"])
def test_a_server_as_it_is_installed_lacks_nothing(server: Server) -> None:
    assert not list(of_server(server))


@pytest.mark.parametrize(
    ("server", "what", "fixes"),
    [
        (replace(WELL, version=(10, 5, 27)), "MariaDB 10.6 or later", None),
        (replace(WELL, mariadb=False, version=(5, 7, 44)), "MySQL 8.0 or later", None),
        (replace(WELL, local_infile=False), "local_infile", "SET GLOBAL local_infile = 1"),
        (replace(WELL, flush_at_commit=2), "innodb_flush", "SET GLOBAL innodb_flush_log_at_trx_commit = 1"),
        (replace(WELL, page=4096), "innodb_page_size of 16384", None),
        (replace(WELL, logs_statements=True), "binlog_format", "SET GLOBAL binlog_format = 'MIXED'"),
    ],
)
def test_later_failures_are_named_with_the_remedy(server: Server, what: str, fixes: str | None) -> None:
    [issue] = of_server(server)
    assert what in issue.what and issue.statement == fixes and issue.severity is Severity.ERROR
    assert issue.statement or issue.remedy


def test_a_server_that_is_read_only_is_reported_and_stops_nothing() -> None:
    [issue] = of_server(replace(WELL, read_only=True))
    assert issue.severity is Severity.WARNING
