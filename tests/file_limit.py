"""A limit on the size of a server's files, like a quota: writes beyond it fail, with EFBIG instead of EDQUOT."""

import subprocess
from collections.abc import Iterable

from devstack.account import service_account


def limit_files(pids: Iterable[int], size: int | None) -> None:
    """Sets the limit for these processes of a PostgreSQL of ours: `size` in bytes, None for no limit."""
    account = service_account()
    soft = "unlimited" if size is None else str(size)
    for pid in pids:
        # The soft limit alone: the account that runs the server may raise it again. A process may have ended meanwhile.
        command = ["prlimit", "--pid", str(pid), f"--fsize={soft}:"]
        subprocess.run(command, check=False, capture_output=True, cwd="/", **(account.popen if account else {}))
