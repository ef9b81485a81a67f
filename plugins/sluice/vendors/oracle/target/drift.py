"""How a row of the slave differs from what a change expects."""

from collections.abc import Mapping

from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import OracleSession
from sluice.vendors.oracle.target.slave_tables import SlaveTable, Words


def differing(
    session: OracleSession, target: SlaveTable, key: Mapping[str, str | None], former: Mapping[str, str | None]
) -> dict[str, tuple[str | None, str | None]]:
    """The columns of the row with `key` that differ from `former`: the slave's value, the master's former one."""
    values: dict[str, tuple[str | None, str | None]] = {}
    for name, text in former.items():
        own, words = target.column(name), Words(target)
        query = f"SELECT {own.text('t')} FROM {target.place} t WHERE {words.equal(key)}"
        present = own.bind(text) is not None
        query += f" AND NOT {words.equal({name: text})}" if present else f" AND t.{own.quoted} IS NOT NULL"
        row = session.run(query, words.values).fetchone()
        if row is None and present:
            # A comparison with NULL is neither true nor false.
            words = Words(target)
            query = f"SELECT NULL FROM {target.place} t WHERE {words.equal(key)} AND t.{own.quoted} IS NULL"
            row = session.run(query, words.values).fetchone()
        if row is not None:
            values[name] = ColumnTexts.shown(row[0]), text
    return values
