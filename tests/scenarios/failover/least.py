"""Accounts of a shop without superusers: Sluice's with the grants of its files, an owner of the tables, a writer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import quoted
from tests.scenarios.failover.shop import ODD, Ends

ACCOUNT, OWNER, WRITER = "sluice", '"Shop ""Owner"""', "shop_writer"
NAMES = ("sluice", 'Shop "Owner"', "shop_writer")


@contextmanager
def least(database: Callable[..., ConnectionInfo], master: PostgresServer, slave: PostgresServer) -> Iterator[Ends]:
    """The ends on two servers, or on one."""
    ends = {"m": database(server=master), "s": database(server=slave)}
    servers = {"m": master, "s": slave}
    for name, server in servers.items():
        for role in NAMES:
            server.create_role(role)
        with server.connect(ends[name].database) as admin:
            here = quoted(admin.info.dbname)
            admin.execute(f"REVOKE ALL ON DATABASE {here} FROM PUBLIC; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
            admin.execute(
                f"GRANT CONNECT, CREATE ON DATABASE {here} TO {OWNER}; GRANT CONNECT ON DATABASE {here} TO {WRITER}"
            )
            admin.execute(f"GRANT ALL ON SCHEMA public TO {OWNER}")

    def info(name: str, role: str) -> ConnectionInfo:
        return servers[name].info(ends[name].database, role)

    def grant() -> None:
        with master.connect() as admin:
            admin.execute(f"ALTER ROLE {ACCOUNT} BYPASSRLS")  # a table has row level security
        with (
            master.connect(ends["m"].database) as admin,
            slave.connect(ends["s"].database) as there,
        ):
            for schema in ("public", ODD):
                names = {"role": ACCOUNT, "schema": "sluice", "tables": schema}
                admin.execute(sql_files.render("postgres", "grants", **names, owner=OWNER).encode())
                there.execute(sql_files.render("postgres", "slave_grants", **names).encode())
                admin.execute(
                    f"GRANT USAGE ON SCHEMA {schema} TO {WRITER};"
                    f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {WRITER};"
                    f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {WRITER}"
                )

    try:
        yield Ends(
            {name: info(name, "sluice") for name in servers},
            ends,
            {name: info(name, WRITER) for name in servers},
            info("m", NAMES[1]),
            grant,
        )
    finally:
        for name, server in servers.items():
            with server.connect(ends[name].database) as admin:
                for role in (WRITER, ACCOUNT, OWNER):  # one by one, since PostgreSQL fails at shared default privileges
                    admin.execute(f"DROP OWNED BY {role} CASCADE")
        for server in {master.port: master, slave.port: slave}.values():
            with server.connect() as admin:
                admin.execute(f"DROP ROLE {ACCOUNT}, {OWNER}, {WRITER}")
