"""A demo with a MariaDB master, whose binary log is recorded."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from devstack.demo.accounts import ACCOUNT, APPLICATION, DATABASE, OWNER, PREFIX
from devstack.demo.compare import Recorded
from devstack.demo.course import Course
from devstack.demo.logged_traffic import LoggedTraffic
from devstack.demo.waiting import Replica
from devstack.mariadb import MariaDBServer, quoted
from devstack.services import MARIADB
from sluice.cli import airflow
from sluice.database.registry import master_of, reach
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.vendors import BINLOG
from sluice.operate.api import CAPTURE, UPDATE
from workload import mariadb


class LoggedCourse(Course):
    """See `devstack.demo.course.Course`."""

    master = MARIADB

    def load(self, replica: Replica) -> None:
        api = self.stack.airflow.api()
        api.await_dags([CAPTURE, UPDATE])
        self.waiting.retry(lambda: airflow.start_capture(api, Prefix(PREFIX)), "starting the capture of the log")
        super().load(replica)

    @property
    def _folder(self) -> Path:
        return self.stack.home.root / "streams" / "demo"

    @property
    def _server(self) -> MariaDBServer:
        return self.stack.services.mariadb

    def _configured_master(self) -> Mapping[str, object]:
        shutil.rmtree(self._folder, ignore_errors=True)  # of an earlier demo
        return {"conn_id": f"demo_{MARIADB}", "vendor": "mysql", "capture": BINLOG, "location": str(self._folder)}

    def _make_master(self) -> None:
        server = self._server
        server.drop_account(OWNER, DATABASE)
        server.create_account(OWNER, DATABASE)
        with server.connect(DATABASE, OWNER) as owner:
            mariadb.fill(owner, self.scale)
        with server.connect() as administrator, administrator.cursor() as cursor:
            cursor.execute(f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {ACCOUNT}@'%'")
            cursor.execute(f"GRANT SELECT, REFERENCES ON {quoted(DATABASE)}.* TO {ACCOUNT}@'%'")

    def _start_writers(self) -> None:
        rate, folder = self.args.rate, self._folder
        self.traffic = LoggedTraffic(self._server, rate, self.scale, self.seed)
        self.traffic.start()
        self.captured = Recorded(folder)
        self.captured.start()
        self.events.say(f"traffic starts; its aim is {rate:,.0f} row changes a second")

    def _position(self) -> Position:
        """Raises Sluice's errors."""
        vendor, info = master_of("mysql"), replace(self.stack.connection(MARIADB), stream=str(self._folder))
        with vendor.sessions.connect(info, application=f"{APPLICATION} position", autocommit=True) as session:
            return vendor.queue(session, Prefix(PREFIX), "").take()

    def _tables(self) -> list[TableName]:
        with reach(self.stack.connection(MARIADB), APPLICATION) as session:
            return master_of("mysql").rows.tables(session)
