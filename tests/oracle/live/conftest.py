"""Fixtures of replications into Oracle: on the server of `SLUICE_TEST_ORACLE`, or on IvorySQL of
`SLUICE_TEST_IVORYSQL`.

Each test runs on each of them that is named; without one, none runs.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sluice.model.connection import ConnectionInfo
from sluice.model.vendors import VENDORS, VendorEntry
from tests.oracle import server
from tests.oracle.live.master_rig import OracleMasterRig
from tests.oracle.live.rig import OracleRig

NAMED = sorted(server.named())
collect_ignore_glob = [] if NAMED else ["test_*.py"]
if "ivorysql" not in NAMED:
    collect_ignore_glob += ["test_pairs.py", "test_dictionary.py"]
if "oracle" not in NAMED:
    collect_ignore_glob.append("test_driver.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "oracle_database" in metafunc.fixturenames:
        able = getattr(metafunc.module, "ABLE", NAMED)
        metafunc.parametrize("oracle_database", [name for name in NAMED if name in able], indirect=True)


@pytest.fixture
def oracle_database(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., ConnectionInfo]]:
    """A factory of empty databases; `slave=True`: with only a slave's privileges, if the server has privileges."""
    if request.param == "ivorysql":
        entry = VendorEntry("tests.oracle.ivorysql:ON_IVORY", 1521)
        monkeypatch.setitem(VENDORS, "oracle", entry)
        make = request.getfixturevalue("ivorysql")
        yield lambda slave=False: make()
        return
    found = server.wanted()
    assert found is not None
    yield lambda slave=False: found.database(slave=slave)
    found.drop()


@pytest.fixture
def rig(
    database: Callable[..., ConnectionInfo],
    oracle_database: Callable[..., ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., OracleRig]]:
    """`rig(ddl, on_conflict="reject")`: a PostgreSQL master with these tables, and a slave with these options."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    made: list[OracleRig] = []

    def make(tables: str, **options: object) -> OracleRig:
        of_slave = partial(oracle_database, slave=True)
        made.append(OracleRig.build(database, of_slave, redis_url, tmp_path, tables, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def master_rig(
    database: Callable[..., ConnectionInfo],
    oracle_database: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., OracleMasterRig]]:
    """`master_rig(statements)`: an Oracle master with these tables, and a PostgreSQL slave."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    made: list[OracleMasterRig] = []

    def make(tables: str, **options: object) -> OracleMasterRig:
        made.append(OracleMasterRig.of(oracle_database, database, redis_url, tmp_path, tables, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()
