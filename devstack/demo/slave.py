"""A slave of the demo before the first initial update: an empty database, and a role with the few rights it needs."""

from devstack.demo.accounts import ACCOUNT, DATABASE
from devstack.demo.master import install_hstore, recreate_database
from devstack.postgres import PostgresServer
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.session_settings import silence_statement


def make(server: PostgresServer) -> None:
    """Whatever an earlier demo left in the database goes. Raises psycopg's errors."""
    server.create_role(ACCOUNT)
    recreate_database(server, ACCOUNT)
    with server.connect(DATABASE) as admin:
        install_hstore(admin)
        version = admin.info.server_version
        admin.execute(silence_statement(quoted(ACCOUNT), quoted(DATABASE), version).encode())
