"""Redis: who is active and which gates are open. Never the truth about data."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

from sluice.errors import Terminal, Transient


class StoreUnreachable(Transient):
    """Redis does not answer. No data is lost; the apply waits until it is back."""


class StoreNotConfigured(Terminal):
    """Nobody said where Redis is, or Redis refuses the password."""


def url() -> str:
    """Where Redis is: `SLUICE_REDIS_URL`. Raises `StoreNotConfigured`."""
    configured = os.environ.get("SLUICE_REDIS_URL")
    if not configured:
        raise StoreNotConfigured("SLUICE_REDIS_URL is not set. Set it to redis://[:password@]host:port/database.")
    return configured


def connect(address: str | None = None) -> "redis.Redis":
    """A client for `address` (default: `url()`); it connects at its first command."""
    try:
        return redis.Redis.from_url(
            address or url(),
            decode_responses=True,
            socket_timeout=5.0,
            socket_connect_timeout=3.0,
            health_check_interval=30,
        )
    except ValueError as error:
        raise StoreNotConfigured(
            f"SLUICE_REDIS_URL is no Redis URL: {error}. Write redis://[:password@]host:port/0."
        ) from error


@contextmanager
def classified() -> Iterator[None]:
    """Turns the driver's errors into `StoreUnreachable` or `StoreNotConfigured`."""
    try:
        yield
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
        raise StoreNotConfigured(f"Redis refuses this user: {error}. Correct SLUICE_REDIS_URL.") from error
    except redis.RedisError as error:  # away, loading, read-only, out of memory or disk: it may come back
        raise StoreUnreachable(f"Redis does not answer: {error}") from error


Clock = Callable[[], float]
"""Seconds on a clock that never goes back, as `time.monotonic`."""
