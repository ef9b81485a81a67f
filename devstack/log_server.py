"""Airflow's triggerer with a log server that answers on the loopback address alone.

    python -m devstack.log_server triggerer …

Airflow's API server reads logs from a folder that all processes share here. For a task that runs or is deferred it
also asks the task's host, and shows an error when no server answers. Airflow's own log servers listen on every address
of the machine. This one listens on the loopback address and returns an empty log, because the folder has all lines.
Like Airflow's, it answers only requests that are signed with the secret of Airflow's API.
"""

import os
import runpy
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from devstack.ports import HOST
from sluice.with_parent import end_with_parent

PORT = "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT"
SECRET = "AIRFLOW__API__SECRET_KEY"
"""Environment variables of Airflow."""
AUDIENCE = "task-instance-logs"


def host() -> str:
    """Returns the machine's name for Airflow, which asks that host for logs (`CORE__HOSTNAME_CALLABLE`)."""
    return HOST


def is_signed(authorization: str | None) -> bool:
    """Whether this Airflow signed the request."""
    # Imported here: the process forks later, and should have loaded little by then.
    import jwt

    try:
        jwt.decode(
            authorization or "",
            os.environ[SECRET],
            algorithms=["HS512"],
            audience=AUDIENCE,
            leeway=30,
            options={"require": ["exp"]},
        )
    except jwt.InvalidTokenError:
        return False
    return True


class EmptyLog(BaseHTTPRequestHandler):
    """Answers every signed GET with an empty log."""

    def do_GET(self) -> None:
        self.send_response(200 if is_signed(self.headers.get("Authorization")) else 403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Logs no request."""


def serve(port: int) -> None:
    """Serves in a child process that ends with this one. This one forks later and must have no threads then.

    When the port is in use, the child prints a line and ends, and the triggerer starts without it.
    """
    parent = os.getpid()
    if os.fork():
        return
    end_with_parent(signal.SIGTERM)
    try:
        if os.getppid() == parent:
            HTTPServer((HOST, port), EmptyLog).serve_forever()
    except OSError as taken:
        print(f"Port {port} for requests of logs cannot be used: {taken}", file=sys.stderr, flush=True)
    finally:
        os._exit(0)


if __name__ == "__main__":
    serve(int(os.environ[PORT]))
    sys.argv[0] = "airflow"
    runpy.run_module("airflow", run_name="__main__")
