"""Airflow's triggerer with an answer to the question for the logs of what runs.

    python -m devstack.log_server triggerer …

Airflow's API server reads logs from the folder that all processes share here. Of a task that runs or is deferred it
asks the host of the task for them as well, and shows an error where no server answers. Airflow's own log servers answer
on every address of the machine; this one answers on the loopback address alone, with an empty log: the folder has all.
As they do, it answers only who signs the question with the secret of Airflow's API.
"""

import ctypes
import os
import runpy
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from devstack.ports import HOST

PORT = "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT"
SECRET = "AIRFLOW__API__SECRET_KEY"
"""Environment variables, Airflow's own."""
AUDIENCE = "task-instance-logs"


def host() -> str:
    """What Airflow's processes take for the name of this machine: where logs are asked for."""
    return HOST


def is_signed(authorization: str | None) -> bool:
    """Whether a question for a log comes from this Airflow."""
    # Here, because the process forks later: it should have loaded little by then.
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


class Nothing(BaseHTTPRequestHandler):
    """Answers every GET that is signed with a log without lines."""

    def do_GET(self) -> None:  # the name that http.server wants
        """An empty log."""
        self.send_response(200 if is_signed(self.headers.get("Authorization")) else 403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """The triggerer's own log is for other things."""


def serve(port: int) -> None:
    """In a child that ends with this process, which forks later and must have no threads then.

    A port that something else took meanwhile is no reason not to start.
    """
    parent = os.getpid()
    if os.fork():
        return
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    try:
        if os.getppid() == parent:
            HTTPServer((HOST, port), Nothing).serve_forever()
    except OSError as taken:
        print(f"Port {port} for questions about logs cannot be used: {taken}", file=sys.stderr, flush=True)
    finally:
        os._exit(0)


if __name__ == "__main__":
    serve(int(os.environ[PORT]))
    sys.argv[0] = "airflow"
    runpy.run_module("airflow", run_name="__main__")
