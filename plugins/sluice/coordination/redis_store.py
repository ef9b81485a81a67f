"""The connection to Redis, which knows who is active and which gates are open, and never decides about data."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import redis

from sluice.errors import Terminal, Transient


class StoreUnreachable(Transient):
    """Redis does not answer. No data is lost; the apply waits until it answers."""


class StoreRefuses(StoreUnreachable):
    """Redis refuses the user, or one of its commands. What was admitted before is an outage, which somebody ends."""


def url() -> str:
    """The address of Redis: `SLUICE_REDIS_URL`. Raises `redis-not-configured`."""
    configured = os.environ.get("SLUICE_REDIS_URL")
    if not configured:
        raise Terminal(
            "SLUICE_REDIS_URL is not set. Set it to redis://[:password@]host:port/database.",
            code="redis-not-configured",
        )
    return configured


def passwords(address: str) -> set[str]:
    """The password in `address`, decoded and as the URL encodes it, to mask both. Raises `redis-not-configured`."""
    with _url_understood():
        meant = str(redis.connection.parse_url(address).get("password", ""))  # type: ignore[no-untyped-call]
        return {meant, quote(meant, safe=""), urlsplit(address).password or ""} - {""}


class Store(redis.Redis):
    """A client whose commands raise `StoreUnreachable` or `StoreRefuses` instead of the driver's errors."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        with classified():
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> "_Pipeline":
        return _Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _Pipeline(redis.client.Pipeline):
    """The commands of a pipeline of `Store`."""

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with classified():
            return super().execute(raise_on_error)


def connect(address: str | None = None, seconds: float = 5.0) -> "redis.Redis":
    """A client for `address` (default: `url()`); it connects at its first command. `seconds`: time-out of an answer."""
    with _url_understood():
        return Store.from_url(
            address or url(),
            decode_responses=True,
            socket_timeout=seconds,
            socket_connect_timeout=min(seconds, 3.0),
            health_check_interval=30,
        )


@dataclass(frozen=True)
class RedisAddress:
    """The parts of Redis's address."""

    host: str
    """Host, or the path of a local socket."""
    server: str
    secure: bool
    """With TLS."""


def address_of(address: str) -> RedisAddress:
    """Parses `address`. Raises `redis-not-configured`."""
    pool = connect(address).connection_pool
    settings = pool.connection_kwargs
    host = str(settings.get("path") or settings.get("host"))
    server = host if "path" in settings else f"{host}:{settings.get('port')}"
    return RedisAddress(host, server, issubclass(pool.connection_class, redis.SSLConnection))


def serves_anonymous_clients(address: str) -> bool:
    """Whether this Redis answers clients without user and password. Raises `redis-not-configured`."""
    client = connect(address)
    for secret in ("username", "password"):
        client.connection_pool.connection_kwargs.pop(secret, None)
    with closing(client):
        try:
            return bool(client.ping())
        except StoreUnreachable:
            return False


@contextmanager
def _url_understood() -> Iterator[None]:
    try:
        yield
    except ValueError:
        # The driver's message quotes what it parsed as the port: a part of the password, if that contains a `/`.
        raise Terminal(
            "SLUICE_REDIS_URL is no Redis URL. Write redis://[:password@]host:port/0, and in the password %2F for /, "
            "%23 for #, %3F for ?, %40 for @, %5B for [ and %5D for ].",
            code="redis-not-configured",
        ) from None


@contextmanager
def classified() -> Iterator[None]:
    """Turns the driver's errors into `StoreUnreachable` or `StoreRefuses`."""
    try:
        yield
    except redis.exceptions.NoScriptError:
        raise  # the driver sends the script, and tries again
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
        raise StoreRefuses(
            f"Redis refuses the user of SLUICE_REDIS_URL: {error}. Give it the right with ACL SETUSER, or correct the "
            "address. It is tried again until then."
        ) from error
    except redis.exceptions.OutOfMemoryError as error:
        reason = str(error).rstrip(".")
        raise StoreUnreachable(
            f"Redis is full, and takes nothing: {reason}. Raise its maxmemory, or take away what others keep there; no "
            "apply has to be restarted."
        ) from error
    except redis.exceptions.ReadOnlyError as error:
        raise StoreUnreachable(f"Redis is read-only: {error} SLUICE_REDIS_URL must lead to the primary.") from error
    except redis.RedisError as error:  # away, loading, read-only: it may come back
        if str(error).startswith("MISCONF"):
            raise StoreUnreachable(
                f"Redis cannot write its files, and takes nothing: {error} Make room on the disk of its folder "
                "(CONFIG GET dir); no apply has to be restarted."
            ) from error
        raise StoreUnreachable(f"Redis does not answer: {error}") from error
