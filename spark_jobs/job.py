"""What all jobs share: input on stdin, log on stdout, exit code.

The input is a JSON object: `{"prefix", "slave", "connections": {conn_id: ConnectionInfo}, "redis_url", "spark": fields
of Endpoint}`. It is read from stdin, because others can read command lines and environments, which must not have
passwords.
"""

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice import __version__
from sluice.errors import Terminal, Transient, labeled
from sluice.exit_status import DONE, TERMINAL, TRANSIENT
from sluice.model.connection import ConnectionInfo
from spark_jobs.endpoint import Endpoint

log = logging.getLogger("sluice.job")


@dataclass(frozen=True)
class JobInput:
    """The input of a job."""

    prefix: str
    slave: str
    connections: Mapping[str, ConnectionInfo]
    redis_url: str = field(repr=False)
    endpoint: Endpoint = field(default_factory=Endpoint)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of this kind of job, such as `update_id`."""

    @classmethod
    def read(cls, text: str) -> "JobInput":
        """Reads the input. Raises `Terminal` for other text."""
        try:
            values = json.loads(text)
            endpoint = Endpoint.read(values.pop("spark", {}))
            return cls(
                prefix=values.pop("prefix"),
                slave=values.pop("slave"),
                connections={name: ConnectionInfo.from_dict(info) for name, info in values.pop("connections").items()},
                redis_url=values.pop("redis_url"),
                endpoint=endpoint,
                extra=values,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Not `from error`: the text may hold a password and must not reach a log.
            raise Terminal(
                f"The job's input on stdin is not understood: {type(error).__name__} at {error}.", code="bad-job-input"
            ) from None


def main(run: Callable[[JobInput, threading.Event], None]) -> int:
    """Runs a job with its input and a stop event that SIGTERM and SIGINT set; returns the exit code."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO, format="%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )  # fmt: skip
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log.info("Sluice %s", __version__)
    try:
        run(JobInput.read(sys.stdin.read()), stop)
    except Transient as error:
        log.warning("%s", labeled(error))
        return TRANSIENT
    except Terminal as error:
        log.error("%s", labeled(error))
        return TERMINAL
    except Exception:
        log.exception("The job failed in a way nobody foresaw; it may be started again")
        return TRANSIENT
    return DONE
