"""A shop whose slave takes over: hostile names, everything that rows do not bring, and the DAG's tasks."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import redis
from initial_load.applying import Applying
from initial_load.loaders import in_threads
from initial_load.pair import rows_of

from sluice import config
from sluice.config import Replication
from sluice.domain.checkpoint import Checkpoint
from sluice.domain.connection import ConnectionInfo
from sluice.domain.definitions import Difference, differences
from sluice.domain.failover import Record
from sluice.domain.names import Prefix, TableName
from sluice.domain.state import SlaveState
from sluice.initial import steps as initial
from sluice.initial.job import LoadJob
from sluice.initial.loader import load_worker
from sluice.initial.update import Update
from sluice.install import reconcile, resources
from sluice.orchestration import steps_failover
from sluice.orchestration.work import Work
from sluice.pair import Pair
from sluice.stores import lease, redis_store
from sluice.vendors.postgres import catalog, failover, position
from sluice.vendors.postgres.checkpoint import CheckpointStore
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow
from tests.waiting import until

CONFIG = """
prefix: DEMO_
master: {conn_id: m}
slaves:
  dr1: {conn_id: s, checkpoint: KEPT}
tables:
  public.*: {}
  '"Odd ""Schema"".x".*': {}
  public.left_behind: {replicate: false}
apply: {checkpoint_interval: 0.1, lease: 5.0}
"""
ODD = '"Odd ""Schema"".x"'

DDL = f'''
CREATE SCHEMA {ODD};
CREATE TABLE public.customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL);
CREATE TABLE public.orders (
    id serial PRIMARY KEY, customer bigint NOT NULL REFERENCES public.customers ON DELETE CASCADE,
    total numeric NOT NULL DEFAULT 0, placed timestamptz DEFAULT now(), CHECK (total >= 0));
CREATE INDEX orders_by_customer ON public.orders (customer) WHERE total > 1;
CREATE TABLE {ODD}."Select" (
    "Key ""1""" int, "order" bigint, v text, PRIMARY KEY ("Key ""1"""),
    CONSTRAINT "to the ""order""" FOREIGN KEY ("order") REFERENCES public.orders
        ON UPDATE CASCADE ON DELETE SET NULL NOT DEFERRABLE);
CREATE TABLE public.slots (id int PRIMARY KEY, during int4range NOT NULL, EXCLUDE USING gist (during WITH &&));
CREATE SEQUENCE {ODD}."Invoice No" INCREMENT 5 START 100;
CREATE TABLE public.left_behind (id int);
CREATE FUNCTION public.stamp() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.name := upper(NEW.name); RETURN NEW; END $$;
CREATE FUNCTION {ODD}."audit it"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER "Stamp it" BEFORE INSERT OR UPDATE ON public.customers FOR EACH ROW EXECUTE FUNCTION public.stamp();
CREATE TRIGGER audited AFTER DELETE ON public.orders FOR EACH STATEMENT EXECUTE FUNCTION {ODD}."audit it"();
CREATE VIEW public.big_orders AS SELECT * FROM public.orders WHERE total > 100;
ALTER TABLE public.slots ENABLE ROW LEVEL SECURITY;
CREATE POLICY "read it" ON public.slots FOR SELECT USING (id > 0);
GRANT SELECT, INSERT ON public.orders TO PUBLIC;
INSERT INTO public.customers (name) SELECT 'c' || g FROM generate_series(1, 20) g;
INSERT INTO public.orders (customer, total) SELECT 1 + g % 20, g FROM generate_series(1, 200) g;
INSERT INTO {ODD}."Select" SELECT g, g, 'v' FROM generate_series(1, 50) g;
INSERT INTO public.slots SELECT g, int4range(g * 10, g * 10 + 5) FROM generate_series(1, 5) g;
SELECT nextval('{ODD}."Invoice No"') FROM generate_series(1, 3);
'''
CATALOGUE = """
SELECT 'trigger', tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', pronamespace::regnamespace::text, proname || md5(prosrc) FROM pg_proc WHERE oid > 16384
UNION ALL SELECT 'relation', relnamespace::regnamespace::text, relname FROM pg_class
    WHERE oid > 16384 AND relnamespace::regnamespace::text !~ '^pg_' AND relname NOT LIKE 'demo_failover%'
UNION ALL SELECT 'constraint', conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid <> 0 AND conrelid::regclass::text NOT LIKE '%demo_failover'
ORDER BY 1, 2, 3
"""
PLANNED = (
    "check", "begin", "guard", "reach", "verify", "end_apply", "complete", "capture", "switch_over", "follow", "finish",
)  # fmt: skip
FORCED = ("check", "begin", "end_apply", "complete", "capture", "switch_over", "follow", "finish")
TABLES = tuple(
    TableName(schema, name)
    for schema, name in (
        ("public", "customers"), ("public", "orders"), ('Odd "Schema".x', "Select"), ("public", "slots"),
    )
)  # fmt: skip


@dataclass
class Shop:
    """Both databases, loaded and NORMAL, and the tasks of the DAG `failover`."""

    REFUSED = psycopg.errors.ReadOnlySqlTransaction
    infos: dict[str, ConnectionInfo]
    store: redis.Redis
    folder: Path
    master: psycopg.Connection[Any]
    slave: psycopg.Connection[Any]
    patch: pytest.MonkeyPatch

    @classmethod
    def build(
        cls,
        database: Callable[..., ConnectionInfo],
        redis_url: str,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        kept: str = "slave",
        infos: dict[str, ConnectionInfo] | None = None,
    ) -> "Shop":
        """`kept`: where the slave's checkpoint is."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "DEMO.yaml").write_text(CONFIG.replace("KEPT", kept))
        monkeypatch.setenv("SLUICE_REPLICATIONS", str(folder))
        monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
        infos = infos or {"m": database(), "s": database()}
        for name, info in infos.items():
            connect_airflow(monkeypatch, name, info)
        master, slave = (connect(info, application="test", autocommit=True) for info in infos.values())
        shop = cls(infos, redis_store.connect(redis_url), folder, master, slave, monkeypatch)
        shop.master.execute(DDL.encode())
        shop.load()
        return shop

    @property
    def replication(self) -> Replication:
        """As configured now."""
        return config.load("DEMO_")

    @property
    def pair(self) -> Pair:
        return Pair.of(self.replication, "dr1", self.infos)

    def load(self) -> None:
        """An initial update with its finish."""
        one = self.replication
        resources.install(self.master, one.prefix, one.master.schema)
        reconcile.reconcile(self.master, one.prefix, one.master.schema, one.resolve(catalog.tables(self.master)))
        update = self.update()
        initial.begin(update, self.store)
        initial.create_tables(update)
        initial.plan(update, self.store)
        with self.applying():
            with LoadJob(update) as job:
                in_threads(job, partial(load_worker, update), 2)
            until(lambda: self.checkpoint.state is SlaveState.NORMAL)
        initial.finish(update)

    def update(self) -> Update:
        """A new initial update of the pair."""
        return Update.named(self.pair, f"update {uuid.uuid4().hex[:6]}")

    def lose(self, name: str) -> None:
        """From here on this database is not there for anybody but the test."""
        connect_airflow(self.patch, name, replace(self.infos[name], port=1))

    @contextmanager
    def applying(self) -> Iterator[Applying]:
        """The real apply of the pair as it is configured now; raises what ended it."""
        with Applying(self.pair, self.store) as running:
            until(lambda: running.failure or lease.held(self.store, Prefix("DEMO_"), "dr1"))
            yield running
        if running.failure:
            raise running.failure

    def work(self, action: str, run: str = "run 1", **params: Any) -> Work:
        """What the tasks of a run of the DAG are given."""
        context: dict[str, Any] = {
            "dag": SimpleNamespace(dag_id="failover"),
            "dag_run": SimpleNamespace(triggering_user_name="anna"),
            "run_id": run,
            "params": {
                "prefix": "DEMO_", "slave": "dr1", "action": action, "reverse": False, "override": False, "sample": 0,
                "sequence_gap": 1000, **params,
            },
        }  # fmt: skip
        return Work(self.replication, "dr1", context, ("dr1",))

    def run(self, action: str, tasks: Sequence[str], run: str = "run 1", **params: Any) -> dict[str, str]:
        """Runs these tasks of the DAG, one after another; what each says."""
        return {name: str(getattr(steps_failover, name).body(self.work(action, run, **params))) for name in tasks}

    def bring_functions(self) -> None:
        """What a person does before a failover: the functions of triggers."""
        for one in self._differences():
            if one.kind == "function":
                for statement in one.statements:
                    self.slave.execute(statement.encode())

    def differences(self) -> list[str]:
        """How the slave's definitions still differ."""
        return [str(one) for one in self._differences()]

    def _differences(self) -> list[Difference]:
        mine = failover.definitions(self.master, self.replication.prefix, TABLES)
        return differences(mine, failover.definitions(self.slave, self.replication.prefix, TABLES, all_roles=True))

    def catalogues(self) -> list[list[Any]]:
        """All that is defined in both databases but Sluice's own tables, compared as texts."""
        return [
            connection.execute(CATALOGUE.encode()).fetchall()
            + list(failover.definitions(connection, self.replication.prefix, TABLES))
            for connection in (self.master, self.slave)
        ]

    def new_master(self) -> ConnectionInfo | None:
        """Where the application finds its master, once there is another one."""
        for info in self.infos.values():
            with connect(info, application="shop", autocommit=True) as connection:
                found = CheckpointStore(connection, Prefix("DEMO_"), "public", "dr1").read()
            if found and found.state is SlaveState.MASTER:
                return info
        return None

    def turn_round(self) -> None:
        """What a person does after a failover with `reverse`: the new configuration is in force."""
        (self.folder / "DEMO.yaml.reversed").replace(self.folder / "DEMO.yaml")
        self.master, self.slave = self.slave, self.master

    @property
    def record(self) -> Record:
        found = failover.FailoverStore(self.slave, self.replication.prefix, "public", "dr1").read()
        assert found is not None
        return found

    @property
    def checkpoint(self) -> Checkpoint:
        found = CheckpointStore(self.slave, self.replication.prefix, "public", "dr1").read()
        assert found is not None
        return found

    def await_current(self) -> None:
        """Returns when the slave has applied all that the master has committed by now."""
        now = position.take(self.master, self.replication.prefix, "public")
        until(lambda: bool((at := self.checkpoint.position) and at.covers_all_of(now)))

    def assert_equal(self) -> None:
        """The replicated tables hold the same rows in both databases, compared as texts."""
        for table in TABLES:
            assert rows_of(self.slave, table, self.master) == rows_of(self.master, table, self.master), str(table)

    def close(self) -> None:
        self.master.close()
        self.slave.close()
