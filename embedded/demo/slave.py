"""A slave of the demo before the first initial update: an empty database, and a role with the few rights it needs."""

from psycopg import sql

from embedded.demo.accounts import ACCOUNT, DATABASE
from embedded.demo.master import install_hstore, recreate_database
from embedded.postgres import PostgresServer


def make(server: PostgresServer) -> None:
    """Whatever an earlier demo left in the database goes. Raises psycopg's errors."""
    server.create_role(ACCOUNT)
    recreate_database(server, ACCOUNT)
    with server.connect(DATABASE) as admin:
        install_hstore(admin)
        admin.execute(sql.SQL("GRANT SET ON PARAMETER session_replication_role TO {}").format(sql.Identifier(ACCOUNT)))
