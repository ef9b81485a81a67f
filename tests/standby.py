"""A standby of a server of a test."""

import shutil
import subprocess

from embedded.account import service_account
from embedded.postgres import PostgresServer, binary


def standby_of(master: PostgresServer, standby: PostgresServer) -> None:
    """A running copy that follows."""
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
        [str(binary("pg_basebackup")), *where, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"],
        check=True,
        **{
            name: value
            for name, value in options.items()
            if name not in ("stdout", "stderr", "stdin", "start_new_session")
        },
    )
    standby.start(die_with_parent=True)
