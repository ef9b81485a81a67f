"""Functions of the user, named `package.module:function` in the configuration and imported by the calling process."""

import importlib
import re
import socket
from collections.abc import Callable

NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
HOW_TO_NAME = "write package.module:function, which Python can import on the machines that call it"


class FunctionMissing(Exception):
    """The function cannot be imported in this process; the text has reason and remedy."""


def imported(name: str) -> Callable[..., object]:
    """Imports the function. Raises `FunctionMissing`."""
    module_name, _, function = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise FunctionMissing(
            f"the module {module_name} cannot be imported on {socket.gethostname()} ({in_one_line(error)}); put it "
            "where Python finds it on each machine that calls it, e.g. into the folder plugins"
        ) from error
    member: object = getattr(module, function, None)
    if not callable(member):
        raise FunctionMissing(f"the module {module_name} has no function {function}")
    return member


def in_one_line(error: BaseException) -> str:
    """The type of an error and its message, in one line."""
    reason = " ".join(str(error).split())
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
