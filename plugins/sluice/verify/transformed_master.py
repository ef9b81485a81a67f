"""The master's rows of a table that the slave gets otherwise, as the slave would hold them.

They are read at the compared position, transformed as a load transforms them, and put into a temporary table on the
slave's server. So both sides have their digests from the same server, by the same types, and no excluded value leaves
this process. It costs a copy of the table's rows over the wire, and their space among the slave's temporary files.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from sluice.database.registry import master_of
from sluice.database.rows import RowFormat
from sluice.model.shape import TableShape
from sluice.transform.row_stream import TransformedRows
from sluice.transform.table_transform import TableTransform
from sluice.verify.pinned_sessions import PinnedView
from sluice.verify.pinned_side import Side


@contextmanager
def transformed_master(
    view: PinnedView, transform: TableTransform, slave: TableShape
) -> Iterator[tuple[Side, TableShape]]:
    """A side in place of the master's, and the shape of its table. `slave`: that of the slave's table.

    Raises errors of both databases, `RowNotTransformed`.
    """
    of_master, of_slave = master_of(view.master.info.vendor).rows, view.slave.vendor
    application = f"{view.pair.application} verify"
    master = view.master.first
    with closing(of_slave.sessions.connect(view.slave.info, application=application, autocommit=True)) as session:
        columns = tuple(slave.column(column.name) for column in transform.shape.replicated)
        scratch = of_slave.load_target.create_scratch(session, replace(slave, columns=columns))
        read = transform.master.replicated
        query = of_master.key_order(master, transform.master).select(read, None, None, canonical=True)
        stream = of_master.stream(master, query, RowFormat.CSV)
        rows = TransformedRows(stream, [column.name for column in read], transform)
        with session.transaction():
            of_slave.load_target.write(session, scratch, rows.columns, rows, RowFormat.CSV)
        side = Side(view.slave.info, of_slave, [session], session)
        side.free.put(session)
        yield side, TableShape(scratch, columns)
