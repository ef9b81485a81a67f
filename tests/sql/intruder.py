"""An owner of captured tables who tries to run own code with the rights of others, and a canary that detects it:

`app.boom…` functions report by a warning which role runs them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.connection import ConnectionInfo
from tests.sql.master import Master

CANARY = "canary: {} ran as "

BOOM = (
    "CREATE FUNCTION app.say(what text) RETURNS void LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE WARNING 'canary: % ran as %', what, current_user; END $$",
    "CREATE FUNCTION app.boom() RETURNS boolean LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM app.say('boom'); RETURN true; END $$",
    "CREATE FUNCTION app.constant(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
    "$$ BEGIN PERFORM app.say('constant'); RETURN n; END $$",
    "CREATE TYPE app.evil AS (x int)",
    *(
        statement
        for target, value in (("text", "'forged'"), ("boolean", "true"), ("integer", "7"), ("inet", "'::1'"))
        for statement in (
            f"CREATE FUNCTION app.to_{target}(v app.evil) RETURNS {target} LANGUAGE plpgsql AS "
            f"$$ BEGIN PERFORM app.say('cast to {target}'); RETURN {value}; END $$",
            f"CREATE CAST (app.evil AS {target}) WITH FUNCTION app.to_{target}(app.evil) AS IMPLICIT",
        )
    ),
    "CREATE FUNCTION app.equals(a app.evil, b app.evil) RETURNS boolean LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM app.say('operator'); RETURN true; END $$",
    "CREATE OPERATOR app.= (LEFTARG = app.evil, RIGHTARG = app.evil, FUNCTION = app.equals)",
    "CREATE OPERATOR app.<> (LEFTARG = app.evil, RIGHTARG = app.evil, FUNCTION = app.equals)",
    # What a column that is gone would be taken for: n.flag is flag(n).
    *(
        f"CREATE FUNCTION app.{name}(r record) RETURNS text LANGUAGE plpgsql AS "
        f"$$ BEGIN PERFORM app.say('function for a column'); RETURN 'x'; END $$"
        for name in ("flag", "v", "ip", "n")
    ),
)
"""Functions, casts and operators that say who runs them."""


RUNS_TEXT = (
    "CREATE FUNCTION public.mapalgebra(n int, expression text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
    "$$ DECLARE r int; BEGIN EXECUTE expression INTO r; RETURN n + r; END $$"
)
"""As st_mapalgebraexpr of postgis_raster: an administrator makes it, and it runs what its caller says."""


@dataclass
class Intruder:
    """Role `name` owns schema app, and nothing else. `master` is the account of the capture, which is no superuser."""

    administrator: Master
    master: Master
    name: str
    heard: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listen(self.administrator.connection)
        self.listen(self.master.connection)
        self.connection = self.session()

    def listen(self, connection: psycopg.Connection[Any]) -> None:
        connection.add_notice_handler(lambda notice: self.heard.append(notice.message_primary or ""))

    def session(self) -> psycopg.Connection[Any]:
        """A session of the intruder."""
        made = self.administrator.session()
        made.execute(f'SET SESSION AUTHORIZATION "{self.name}"')
        made.execute("SET search_path = app, public")
        self.listen(made)
        return made

    def run(self, *statements: str) -> None:
        """Runs statements, each in its own transaction, except those between BEGIN and COMMIT; none may fail."""
        for statement in statements:
            self.connection.execute(statement)  # type: ignore[call-overload]

    def attempt(self, *statements: str) -> None:
        """As `run`, but statements may fail."""
        for statement in statements:
            try:
                self.connection.execute(statement)  # type: ignore[call-overload]
            except psycopg.Error:
                if self.connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                    self.connection.execute("ROLLBACK")

    def compare(self) -> None:
        """Compares definitions, as the apply does every second."""
        self.master.connection.execute(f"SELECT {self.master.name('check_structure')}()".encode())

    def gained(self) -> list[str]:
        """The calls of `app.boom…` by roles other than the intruder."""
        return sorted(
            {text for text in self.heard if text.startswith("canary: ") and not text.endswith(f" {self.name}")}
        )


@contextmanager
def intruding(
    database: Any, postgres: PostgresServer, *, event_triggers: bool, schema: str = "sluice", account: str = ""
) -> Iterator[Intruder]:
    """An installation whose account has the grants of grants.sql, and an intruder."""
    info: ConnectionInfo = database()
    administrator = Master(info, schema=schema)
    account = account or database(role=True).user
    name = f"intruder of {info.database}"[:60]
    administrator.sql(
        f'CREATE ROLE "{name}"', f'CREATE SCHEMA app AUTHORIZATION "{name}"', f"CREATE SCHEMA IF NOT EXISTS {schema}",
        sql_files.render("postgres", "grants", role=account, schema=schema, tables="app", owner=f'"{name}"'),
        "GRANT USAGE ON SCHEMA app TO PUBLIC",
    )  # fmt: skip
    made = Intruder(administrator, Master(postgres.info(info.database, account), schema=schema), name)
    try:
        made.master.install()
        if event_triggers:
            administrator.sql(sql_files.render("postgres", "event_triggers", prefix="demo_", schema=schema))
        made.run(*BOOM)
        yield made
    finally:
        made.connection.close()
        made.master.connection.close()
        administrator.sql(f'DROP OWNED BY "{name}" CASCADE', f'DROP ROLE "{name}"')
        administrator.connection.close()
