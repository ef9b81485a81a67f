"""The archived redo logs of a master (`sluice.database.redo_files`)."""

from sluice import sql_files
from sluice.database.redo_files import ArchivedLogs, LogCopy
from sluice.database.session import Session
from sluice.vendors.oracle.session import native


def read(session: Session) -> ArchivedLogs:
    """Raises `DatabaseError`."""
    oracle = native(session)
    row = oracle.run(sql_files.render("oracle", "archived_logs_place")).fetchone()
    resetlogs, used = row if row is not None else (0, 0)
    copies = tuple(
        LogCopy(int(of), int(thread), int(sequence), int(first), int(following), str(name or ""), bool(inside), int(n))
        for of, thread, sequence, first, following, name, inside, n in oracle.run(
            sql_files.render("oracle", "archived_logs")
        )
    )
    return ArchivedLogs(int(resetlogs), copies, float(used))
