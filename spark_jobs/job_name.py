"""The name of a job on Spark's pages: `sluice DEMO_ -> dr1: load public.orders 12/40`.

Spark's description of a job is the beginning of its request: 128 characters, with the session's id, the user's id, and
the user's name, which Spark only displays. So each request gets the job's name there.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.connect.client.core import DefaultChannelBuilder


class JobName:
    """The name of the job that the calling thread begins next."""

    def __init__(self) -> None:
        self._of = threading.local()

    def __str__(self) -> str:
        return getattr(self._of, "name", "")

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Names the jobs that this thread begins in the context."""
        self._of.name = name
        try:
            yield
        finally:
            self._of.name = ""


class NamingChannel:
    """A channel of grpc whose requests to run something have the name of the calling thread.

    It is no interceptor of grpc: those look the method up for each request, which on a closed channel ends the whole
    process (grpcio 1.85.1, a segmentation fault).
    """

    def __init__(self, channel: Any, name: JobName):
        self._channel = channel
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._channel, attribute)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Callable[..., Any]:
        """See grpc."""
        call: Callable[..., Any] = self._channel.unary_stream(method, *args, **options)
        if not method.endswith("/ExecutePlan"):
            return call

        def named(request: Any, **options: Any) -> Any:
            request.user_context.user_name = str(self._name)
            return call(request, **options)

        return named


def naming_channels(url: str, name: JobName) -> "DefaultChannelBuilder":
    """A builder of a session's channel to `url`."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    class Builder(DefaultChannelBuilder):
        def toChannel(self) -> Any:  # noqa: N802  so pyspark calls it
            return NamingChannel(super().toChannel(), name)

    return Builder(url)
