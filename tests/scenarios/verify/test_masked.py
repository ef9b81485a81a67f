"""Values of masked columns are only in the databases: no error about their rows shows them."""

import logging
from collections.abc import Callable

import pytest

from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.coordination.gate import Gate
from sluice.model.names import TableName
from sluice.model.reject import RejectStatus
from sluice.verify.compare import CompareOptions
from sluice.verify.page import page
from sluice.verify.report import as_dict
from sluice.verify.resync import Action, resync
from tests.rig.rig import Rig

PLANTED = {
    "text": "hunter2 secret",
    "varchar(40)": "hunter3 secret",
    "integer": "77001234",
    "bigint": "7700123455667788",
    "numeric(20, 4)": "7700123.4567",
    "float8": "770012.25",
    "date": "2087-06-05",
    "timestamptz": "2088-07-06 05:04:03+00",
    "interval": "770177 days",
    "uuid": "77aa77aa-0000-4000-8000-77aa77aa77aa",
    "bytea": "\\x77deadbeef77",
    "json": '{"k": "hunter4"}',
    "jsonb": '{"k": "hunter5"}',
    "text[]": "{hunter6,b}",
    "inet": "10.77.88.99",
    "int4range": "[770177,770188)",
    "bit(16)": "1010110011010111",
    "point": "(770177.5,770188.5)",
}
"""Type → a value of it; another one beside."""
WORDS = ("hunter", "77001234", "7700123", "770012.25", "2087-06-05", "2088-07-06", "770177", "77aa77aa", "deadbeef",
         "10.77.88.99", "1010110011010111", "mine-")  # fmt: skip
"""Of which none may be shown."""
COLUMNS = [f"m{number}" for number in range(len(PLANTED))]
TABLE = (
    "CREATE TABLE public.people (id int PRIMARY KEY, n int, "
    + ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, PLANTED, strict=True))
    + "); CREATE TABLE public.by_key (m0 text PRIMARY KEY, n int); CREATE TABLE public.keyless (m0 text, n int)"
)
MASK = "public.people.m*, public.by_key.m0, public.keyless.m0"
GONE = "DELETE FROM public.by_key WHERE m0 = 'hunter8-1'; DELETE FROM public.keyless WHERE m0 = 'hunter9-1'"
TABLES = ("people", "by_key", "keyless")


def planted(pair: Rig, number: int) -> None:
    """Inserts a row with all of them."""
    marks = ", ".join(["%s"] * (len(PLANTED) + 2))
    pair.master.execute(f"INSERT INTO public.people VALUES ({marks})".encode(), [number, number, *PLANTED.values()])
    pair.master.execute(b"INSERT INTO public.by_key VALUES (%s, 1)", [f"hunter8-{number}"])
    pair.master.execute(b"INSERT INTO public.keyless VALUES (%s, 1)", [f"hunter9-{number}"])


def clean(place: str, text: str) -> None:
    for word in WORDS:
        at = text.find(word)
        assert at < 0, f"{word!r} in {place}: …{text[max(at - 300, 0) : at + 100]}…"


def looked_everywhere(pair: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Looks for values in logs, the slave's message, the gate, all keys of Redis, and the texts of REJECTS."""
    clean("the log", caplog.text)
    clean("the checkpoint", str(pair.checkpoint))
    with redis_store.connect(pair.redis_url) as store:
        clean("the gate", str(Gate(store, pair.pair.prefix, "dr1").closures()))
        clean(
            "status", str([store.hgetall(key) for key in store.scan_iter("*") if store.type(key) in ("hash", b"hash")])
        )
    rejects = RejectStore(pair.slave, pair.pair.prefix, "public", "dr1")
    if rejects.ready():
        clean("rejects", "\n".join(f"{each} {each.reason} {each.answer}" for each in rejects.read(tuple(RejectStatus))))


def verified(pair: Rig, table: str, action: Action) -> str:
    """What a run of resync shows of a table."""
    name = TableName("public", table)
    found = resync(pair.pair, redis_store.connect(pair.redis_url), name, CompareOptions(), action, 1_000)
    told = as_dict("DEMO_", "dr1", str(action), "2026-01-01T00:00:00", [found], pair.pair.replication.verify.mask)
    return f"{told}\n{page([told])}"


@pytest.mark.long
def test_conflicts_rejects_repairs_and_reports_show_no_masked_value(
    rig: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="sluice")
    pair = rig(TABLE, policy="reject", mask=MASK)
    with pair.apply() as running:
        pair.await_normal_mode(running)
        for number in range(1, 7):
            planted(pair, number)
        pair.await_current()
        # Rows that were changed by hand, rows that are in the way, rows that went.
        others = ", ".join(f"{name} = NULL" for name in COLUMNS[1:])
        pair.slave.execute(f"UPDATE public.people SET m0 = 'mine-1', {others} WHERE id IN (1, 2)".encode())
        pair.slave.execute(
            "DELETE FROM public.people WHERE id = 3; INSERT INTO public.people (id, m0) VALUES (9, 'mine-9')"
        )
        pair.slave.execute(
            "DELETE FROM public.by_key WHERE m0 = 'hunter8-1'; DELETE FROM public.keyless WHERE m0 = 'hunter9-1'"
        )
        pair.slave.execute("INSERT INTO public.by_key VALUES ('hunter8-9', 7)")
        changed = ", ".join(f"{name} = {name}" for name in COLUMNS)
        pair.master.execute(
            f"UPDATE public.people SET n = 100, m0 = 'hunter2 more', {changed.partition(', ')[2]}".encode()
        )
        pair.master.execute(
            "DELETE FROM public.by_key WHERE m0 = 'hunter8-1'; DELETE FROM public.keyless WHERE m0 = 'hunter9-1'"
        )
        planted(pair, 9)
        pair.await_current()
        assert len(RejectStore(pair.slave, pair.pair.prefix, "public", "dr1").open()) >= 5
        looked_everywhere(pair, caplog)
        # Constraints of the slave whose messages quote rows, keys and whatever a trigger likes.
        pair.slave.execute(
            "CREATE FUNCTION public.loud() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'refused %', NEW.m0 USING DETAIL = NEW.m0; END $$;"
            "CREATE TRIGGER loud BEFORE INSERT ON public.keyless FOR EACH ROW EXECUTE FUNCTION public.loud();"
            "ALTER TABLE public.keyless ENABLE ALWAYS TRIGGER loud;"
            "ALTER TABLE public.by_key ADD CONSTRAINT c CHECK (m0 <> 'hunter8-20');"
            "CREATE UNIQUE INDEX u ON public.people (m2) WHERE id > 19"
        )
        planted(pair, 20)
        planted(pair, 21)
        pair.await_current()
        looked_everywhere(pair, caplog)
        for table in TABLES:
            clean(f"the report of {table}", verified(pair, table, Action.VERIFY))
            clean(f"the report of a refused repair of {table}", verified(pair, table, Action.REPAIR))
        looked_everywhere(pair, caplog)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("stage", [1, 20_000], ids=["staged", "merged"])
@pytest.mark.parametrize("place", range(len(COLUMNS)), ids=list(PLANTED))
def test_a_value_that_does_not_fit_is_not_shown(
    rig: Callable[..., Rig], caplog: pytest.LogCaptureFixture, place: int, stage: int
) -> None:
    column = COLUMNS[place]
    if stage == 1 and place not in (0, 2, 6):
        pytest.skip("shown with three types")
    caplog.set_level(logging.DEBUG, logger="sluice")
    pair = rig(TABLE, mask=MASK, stage=stage)
    kind = "boolean" if list(PLANTED)[place] != "integer" else "smallint"
    pair.slave.execute(f"ALTER TABLE public.people ALTER {column} TYPE {kind} USING NULL".encode())
    planted(pair, 1)
    with pytest.raises(Exception) as raised, pair.apply():
        pair.await_current()
    clean("the error", str(raised.value))
    looked_everywhere(pair, caplog)
