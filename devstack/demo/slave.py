"""Makes a slave for the first initial update: an empty database, and a role with the rights that it needs."""

from devstack.demo.accounts import ACCOUNT, DATABASE
from devstack.demo.master import SCHEMAS, install_hstore, recreate_database
from devstack.mariadb import MariaDBServer
from devstack.postgres import PostgresServer
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.sessions import silence_statement


def make(server: PostgresServer | MariaDBServer) -> None:
    """Drops and makes the role and its database. Raises the errors of the server's driver."""
    if isinstance(server, MariaDBServer):
        # Tables of each schema but `public` are in a database of the schema's name.
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
