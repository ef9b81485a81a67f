"""Servers of a test, and a standby of one."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from psycopg.conninfo import make_conninfo as conninfo

from devstack.account import new_folder, service_account
from devstack.postgres import PostgresServer
from devstack.postgres_programs import programs
from devstack.postgres_releases import NEWEST


@contextmanager
def servers(release: int = NEWEST) -> Iterator[Callable[[str], PostgresServer]]:
    """A factory of servers by name, of PostgreSQL `release`; all are removed at the end."""
    made: list[PostgresServer] = []
    # Not pytest's own folder: another session of it closes that to the account that runs the servers.
    folder = new_folder("sluice-test-")

    def make(name: str) -> PostgresServer:
        made.append(PostgresServer(folder / name, name=name, settings={"fsync": "off"}, release=release))
        return made[-1]

    try:
        yield make
    finally:
        for each in reversed(made):
            each.stop()
        shutil.rmtree(folder)


def standby_of(master: PostgresServer, standby: PostgresServer) -> None:
    """A running standby of the server."""
    standby.data.mkdir(parents=True, mode=0o700)
    account = service_account()
    if account:
        account.own(standby.data)
    shutil.copytree(master.directory / "passwords", standby.directory / "passwords")
    info = master.info()
    options = standby.popen_options()
    where = [f"--host={info.host}", f"--port={info.port}", f"--username={info.user}", f"--pgdata={standby.data}"]
    options["env"] = {**options["env"], "PGPASSWORD": info.password or ""}
    subprocess.run(
        [str(programs(account) / "pg_basebackup"), *where, "--checkpoint=fast", "--no-sync"],
        check=True,
        **{
            name: value
            for name, value in options.items()
            if name not in ("stdout", "stderr", "stdin", "start_new_session")
        },
    )
    # `--write-recovery-conf` would write options that the libpq of an older server does not know.
    (standby.data / "standby.signal").touch()
    connection = conninfo(host=info.host, port=info.port, user=info.user, password=info.password or "")
    with open(standby.data / "postgresql.auto.conf", "a", encoding="utf-8") as settings:
        quoted = connection.replace("'", "''")
        settings.write(f"primary_conninfo = '{quoted}'\n")
    standby.start(die_with_parent=True)
