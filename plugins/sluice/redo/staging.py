"""Makes the stager of a replication's redo thread, as configured."""

import os
from pathlib import Path

from sluice.configuration.redo import RedoOptions
from sluice.errors import Terminal
from sluice.redo import proxy
from sluice.redo.proxy_client import Limits, ProxyClient
from sluice.redo.stager import Archive, Stager


def read_token(file: str) -> str:
    """Raises `token-refused`."""
    try:
        return proxy.read_token(file)
    except proxy.CannotServe as refused:
        raise Terminal(str(refused), code="token-refused") from None


def of_thread(options: RedoOptions, logs: Path, thread: int, resetlogs: int, since: int) -> Stager:
    """Raises `token-refused`, `ProxyRefuses`."""
    return Stager(of_all(options), logs, thread, resetlogs, since=since)


def of_all(options: RedoOptions) -> Archive:
    """Raises `token-refused`, `ProxyRefuses`."""
    return Archive(_client(options), options.archived)


def _client(options: RedoOptions) -> ProxyClient:
    assert options.proxy is not None
    assert options.token_file is not None
    authority = Path(os.path.abspath(options.proxy_authority)) if options.proxy_authority else None
    limits = Limits(options.proxy_connect, options.proxy_read, options.proxy_tries, options.proxy_pause)
    return ProxyClient(options.proxy, read_token(options.token_file), authority, limits)
