"""What Spark's pages call a job: `sluice DEMO_ -> dr1: load public.orders 12/40`.

The description of a job is the beginning of the request that began it: 128 characters, the session's id first, then
the user's id, then the user's name, which Spark knows for display alone. So each request gets the job's name there.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.connect.client.core import DefaultChannelBuilder


class JobName:
    """The name of what the calling thread is about to run."""

    def __init__(self) -> None:
        self._of = threading.local()

    def __str__(self) -> str:
        return getattr(self._of, "name", "")

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Jobs that this thread begins inside are called `name`."""
        self._of.name = name
        try:
            yield
        finally:
            self._of.name = ""


class NamingChannel:
    """A channel of grpc whose requests to run something say the name of the thread that makes them.

    It is none of grpc's interceptors: those look the method up for each request, which on a channel
    that was closed meanwhile ends the whole process (grpcio 1.85.1, a segmentation fault).
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
    """What makes a session's channel to `url`."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    class Builder(DefaultChannelBuilder):
        def toChannel(self) -> Any:  # noqa: N802  so pyspark calls it
            return NamingChannel(super().toChannel(), name)

    return Builder(url)
