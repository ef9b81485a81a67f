"""A slave of the demo before the first initial update: an empty database, and a role with the few rights it needs."""

from devstack.demo.accounts import ACCOUNT, DATABASE
from devstack.demo.master import SCHEMAS, install_hstore, recreate_database
from devstack.mariadb import MariaDBServer
from devstack.postgres import PostgresServer
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.session_settings import silence_statement


def make(server: PostgresServer | MariaDBServer) -> None:
    """Whatever an earlier demo left in the database goes. Raises the errors of the server's driver."""
    if isinstance(server, MariaDBServer):
        # Tables of other schemas than the first one are in databases of their names.
        databases = [DATABASE, *(schema for schema in SCHEMAS if schema != "public")]
        server.drop_account(ACCOUNT, *databases)
        server.create_account(ACCOUNT, *databases)
        return
    server.create_role(ACCOUNT)
    recreate_database(server, ACCOUNT)
    with server.connect(DATABASE) as admin:
        install_hstore(admin)
        version = admin.info.server_version
        admin.execute(silence_statement(quoted(ACCOUNT), quoted(DATABASE), version).encode())
