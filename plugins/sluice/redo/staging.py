"""Makes the stager of a replication's redo thread, as configured."""

import os
import stat
from pathlib import Path

from sluice.configuration.redo import RedoOptions
from sluice.errors import Terminal
from sluice.redo.proxy_client import ProxyClient
from sluice.redo.stager import Archive, Stager

SHORTEST_TOKEN = 16


class TokenRefused(Terminal):
    """A file has no token, or others can read it."""

    def __init__(self, file: Path, reason: str):
        super().__init__(
            f"{file} {reason}. Write {SHORTEST_TOKEN} random characters or more into it, such as those of "
            "`openssl rand -hex 32`, and chmod 600 it."
        )


def read_token(file: Path) -> str:
    """Raises `TokenRefused`."""
    try:
        token = file.read_text("ascii").strip()
        mode = file.stat().st_mode
    except OSError as error:
        raise TokenRefused(file, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TokenRefused(file, "holds other characters than ASCII has") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TokenRefused(file, "can be read by other accounts")
    if len(token) < SHORTEST_TOKEN or not token.isprintable():
        raise TokenRefused(file, f"holds no token of {SHORTEST_TOKEN} characters")
    return token


def of_thread(options: RedoOptions, logs: Path, thread: int, resetlogs: int, since: int) -> Stager:
    """Raises `TokenRefused`, `ProxyRefuses`."""
    return Stager(of_all(options), logs, thread, resetlogs, since=since)


def of_all(options: RedoOptions) -> Archive:
    """Raises `TokenRefused`, `ProxyRefuses`."""
    return Archive(_client(options), options.archived)


def _client(options: RedoOptions) -> ProxyClient:
    assert options.proxy is not None
    assert options.token_file is not None
    authority = Path(os.path.abspath(options.proxy_authority)) if options.proxy_authority else None
    return ProxyClient(options.proxy, read_token(Path(options.token_file)), authority)
