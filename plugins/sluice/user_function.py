"""Functions of the configuration's owner, named `package.module:function` and imported where they are called."""

import importlib
import re
import socket
from collections.abc import Callable

NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
HOW_TO_NAME = "write package.module:function, which Python can import on the machines that call it"


class FunctionMissing(Exception):
    """There is no such function in this process; the text says why and what to do."""


def imported(name: str) -> Callable[..., object]:
    """Raises `FunctionMissing`."""
    place, _, function = name.partition(":")
    try:
        module = importlib.import_module(place)
    except (Exception, SystemExit) as error:
        raise FunctionMissing(
            f"the module {place} cannot be imported on {socket.gethostname()} ({in_one_line(error)}); put it where "
            "Python finds it on each machine that calls it, e.g. into the folder plugins"
        ) from error
    found: object = getattr(module, function, None)
    if not callable(found):
        raise FunctionMissing(f"the module {place} has no function {function}")
    return found


def in_one_line(error: BaseException) -> str:
    """The kind of an error and what it says."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
