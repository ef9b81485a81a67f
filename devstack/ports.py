"""Ports on the loopback address: finds free ones, and the process that listens on a port."""

import errno
import random
import socket
from pathlib import Path
from typing import Any

import psutil

from sluice.errors import Terminal

HOST = "127.0.0.1"


def port_in_use(service: str, port: int, option: str | None = None) -> Terminal:
    """The port that an option or the last start chose is in use."""
    process = holder(port)
    remedy = f"choose another with {option}" if option else "choose another port"
    return Terminal(
        f"Port {port} on {HOST}, wanted for {service}, is in use by {process or 'a process of another user'}:"
        f" stop that, or {remedy}.",
        code="port-in-use",
    )


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like servers, which ignore TIME_WAIT
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE  # the server reports other errors
        return True


def free_port() -> int:
    """Returns a free port outside the range that the kernel uses for outgoing connections. Raises `no-free-port`.

    Inside that range a client's connection could take the port of a server that is being restarted. A client that
    keeps trying could even connect to itself.
    """
    low, high = _ephemeral()
    candidates = [port for port in range(15000, 65000) if not low <= port <= high] or list(range(15000, 65000))
    for port in random.sample(candidates, min(200, len(candidates))):
        if is_free(port):
            return port
    raise Terminal(
        f"No free port found on {HOST}: close programs that listen there, or name ports explicitly.",
        code="no-free-port",
    )


def _ephemeral() -> tuple[int, int]:
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 49152, 65535


def holder(port: int) -> str | None:
    """Returns the process that listens on the port as `name (pid 42)`, or None when that is not visible."""

    def listens(connection: Any) -> bool:
        return bool(connection.status == psutil.CONN_LISTEN and connection.laddr.port == port)

    try:
        pid = next((c.pid for c in psutil.net_connections(kind="tcp") if listens(c)), None)
        if pid is None:
            return None
        process = psutil.Process(pid)
        # A child that was just forked has its parent's socket too, until it closes it.
        while (parent := process.parent()) and any(map(listens, parent.net_connections(kind="tcp"))):
            process = parent
        return f"{process.name()} (pid {process.pid})"
    except psutil.Error:
        return None
