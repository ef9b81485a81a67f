"""A session over ADBC whose answers are Arrow.

The driver's own DBAPI is left out: it imports pyarrow.dataset and with it pandas, 28 MB that each apply would hold.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import adbc_driver_manager
import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager._reader import AdbcRecordBatchReader


class ArrowSession:
    """One connection, in autocommit mode. What goes wrong is an `adbc_driver_manager.Error`."""

    def __init__(self, uri: str):
        self._database = adbc_driver_postgresql.connect(uri)
        try:
            self._connection = adbc_driver_manager.AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise

    def run(self, text: str) -> None:
        """A statement without rows."""
        with adbc_driver_manager.AdbcStatement(self._connection) as statement:
            statement.set_sql_query(text)
            statement.execute_update()

    @contextmanager
    def rows(self, text: str) -> Iterator[pa.RecordBatchReader]:
        """Its rows, batch by batch, inside the block. Leaving it early ends the statement on the server."""
        with adbc_driver_manager.AdbcStatement(self._connection) as statement:
            statement.set_sql_query(text)
            handle, _ = statement.execute_query()
            # It raises the driver's errors with their SQLSTATE.
            with closing(AdbcRecordBatchReader._import_from_c(handle.address)) as reader:
                yield reader

    def close(self) -> None:
        with suppress(adbc_driver_manager.ProgrammingError):  # closed already
            self._connection.close()
        self._database.close()
