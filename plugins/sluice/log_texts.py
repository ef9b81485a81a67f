"""Lines of the library's logs show no values of rows, in any process: whoever reads logs may not be who may see rows.

What is left says what failed and where: server, SQLSTATE or code, table, column, constraint. Rows are named in REJECTS,
reports and on the monitor, for people who may see them.
"""

import logging
import re
import traceback
from collections.abc import Iterator
from types import TracebackType

from sluice.errors import SluiceError
from sluice.model.mask import HIDDEN, without_values

OWN = frozenset({"sluice", "spark_jobs"})
"""The first parts of the names of the library's loggers."""
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SILENT = ("pyarrow", "adbc_driver_manager", "duckdb")
"""Packages whose errors quote values without quotation marks."""


def plain(text: str) -> str:
    """The text without control characters, but for ends of lines and tabs: the name of a table may have any, and would
    command the terminal of whoever reads it."""
    return _CONTROL.sub("\ufffd", text)


def shown(error: BaseException) -> str:
    """The text of an error for a log. Errors of other packages may quote values, mostly in quotation marks."""
    text = without_values(str(error))
    if isinstance(error, SluiceError | OSError):  # the path of a full disk is what a person needs
        return text
    return HIDDEN if type(error).__module__.partition(".")[0] in _SILENT else _QUOTED.sub(HIDDEN, text)


def shown_traceback(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> str:
    """A traceback with the texts of its errors as `shown` has them."""
    text = "".join(traceback.format_exception(kind, error, trace))
    # The longest first: the text of one may be a part of another's.
    for each in sorted(_chain(error), key=lambda one: -len(str(one))):
        text = text.replace(str(each), shown(each)) if str(each) else text
    return text.rstrip()


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, those that caused it, and those in a group."""
    if error is not None:
        yield error
        for inner in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
            yield from _chain(inner)
        yield from _chain(error.__cause__ or error.__context__)


def hide_values() -> None:
    """From here on, records of the library's loggers are made so, for any handler. A second call does nothing."""
    former = logging.getLogRecordFactory()
    if getattr(former, "hides_values", False):
        return

    def factory(*args: object, **named: object) -> logging.LogRecord:
        record = former(*args, **named)
        # A record that is made of another one has no name yet.
        if str(record.name).partition(".")[0] in OWN:
            if isinstance(record.args, tuple):
                record.args = tuple(shown(each) if isinstance(each, BaseException) else each for each in record.args)
            text, record.args = without_values(record.getMessage()), ()
            if record.exc_info:
                text += f"\n{shown_traceback(*record.exc_info)}"
                record.exc_info = None
            record.msg = plain(text)
        return record

    factory.hides_values = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(factory)
