"""The server's log over a connection on which it takes us for a replica (COM_BINLOG_DUMP)."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pymysql

from sluice.database.errors import DatabaseUnreachable
from sluice.errors import Terminal
from sluice.vendors.mysql.binlog import events
from sluice.vendors.mysql.binlog.events import Event, Kind, LogDamaged
from sluice.vendors.mysql.connection import MySQLSession, literal
from sluice.vendors.mysql.errors import converted, number_of

_DUMP = 0x12
_CAPABILITY = 4
"""MariaDB's: the replica knows GTIDs."""
HEARTBEAT_SECONDS = 0.1
SILENT_SECONDS = 30.0
"""Seconds without any heartbeat after which the connection is given up."""
REFUSED = 1236
"""The server's number of an error about the log itself: what was asked for is not in it."""
OTHER_READER = 4052
"""The server's number of the end of a reader whose number another one has taken."""


class OtherReader(Terminal):
    """Another program reads the log under the same number."""

    def __init__(self, server: str, number: int):
        super().__init__(
            f"{server}: another reader of its binary log has the server id {number}, and this one was ended. Is the "
            "same stream recorded elsewhere? End that, or record into a folder of another path."
        )


class LogRefused(Exception):
    """The server does not have the log from the place that was asked for. The text is the server's."""


class Dump:
    """Events after a set of transactions. `number`: a server id that no replica has."""

    def __init__(self, session: MySQLSession, number: int, transactions: str):
        self.session, self.number = session, number
        self.file = ""
        self._driver: Any = session.driver
        self._checked: bool | None = None
        settings = {
            "@master_binlog_checksum": "'CRC32'",
            "@mariadb_slave_capability": str(_CAPABILITY),
            "@master_heartbeat_period": str(int(HEARTBEAT_SECONDS * 1e9)),
            "@slave_connect_state": literal(transactions),
            "@slave_gtid_strict_mode": "1",
            "@slave_gtid_ignore_duplicates": "0",
        }
        session.run("SET " + ", ".join(f"{name} = {value}" for name, value in settings.items()))
        driver: Any = self._driver
        driver._read_timeout = SILENT_SECONDS

    def events(self, *, waits: bool) -> Iterator[Event]:
        """All events, heartbeats among them; `waits`: also those that come later. Raises `LogRefused`, `LogDamaged`,
        `DatabaseError`, `OtherReader`."""
        flags = 0 if waits else 1
        try:
            self._driver._execute_command(_DUMP, struct.pack("<IHI", 4, flags, self.number))
            while True:
                packet: bytes = self._driver._read_packet()._data
                if packet[0] == 0xFE and len(packet) < 9:
                    if waits:
                        raise DatabaseUnreachable(f"{self.session.server}: the server ended the reading of its log")
                    return
                yield self._event(packet[1:])
        except (pymysql.Error, OSError) as error:
            number = number_of(error)
            if number == REFUSED:
                raise LogRefused(str(error.args[-1])) from None
            if number == OTHER_READER:
                raise OtherReader(self.session.server, self.number) from None
            raise converted(error, self.session.server) from None

    def _event(self, packet: bytes) -> Event:
        kind = packet[4]
        try:
            if kind == Kind.FORMAT:
                self._checked = events.checksum_of(packet)
                return events.parse(packet, checked=self._checked)
            if kind == Kind.HEARTBEAT:
                return events.parse(packet, checked=False)
            # The first event names the file, before its format is told.
            checked = self._checked if self._checked is not None else _has_checksum(packet)
            event = events.parse(packet, checked=checked)
        except (ValueError, struct.error) as error:
            raise LogDamaged(f"{self.session.server}, {self.file}", str(error)) from None
        if kind == Kind.ROTATE:
            self.file, _ = events.rotation(event)
        return event


def _has_checksum(packet: bytes) -> bool:
    end = len(packet) - events.CHECKSUM_BYTES
    return zlib.crc32(packet[:end]) == int.from_bytes(packet[end:], "little")
