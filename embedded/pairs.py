"""What `./sluice status` says of the replications whose master and slave are of this stack."""

from collections.abc import Iterable
from pathlib import Path

from embedded import verified
from embedded.stack import Stack
from sluice import config, vendors
from sluice.config import Replication
from sluice.domain.connection import ConnectionInfo
from sluice.domain.names import Prefix
from sluice.domain.state import SlaveState
from sluice.errors import SluiceError
from sluice.initial.progress import progress
from sluice.initial.sides import checkpoints_of
from sluice.initial.update import Update
from sluice.pair import Pair
from sluice.stores import lease, redis_store
from sluice.stores.status import Status

LOADING = (SlaveState.INITIAL, SlaveState.TRANSITION)


def pairs(stack: Stack) -> list[str]:
    """Some lines a pair; never raises because of a configuration or an outage."""
    try:
        found = config.survey(Path(stack.blueprint.replications))
    except SluiceError as error:
        return [str(error)]
    lines = [str(mistake) for mistake in found.mistakes]
    places = {f"demo_{place}": place for place in ("master", *stack.blueprint.slaves)}
    for replication in found.replications:
        if replication.master.conn_id in places:
            lines.append(waiting(replication, stack.connection(places[replication.master.conn_id])))
        for name, slave in replication.slaves.items():
            if replication.master.conn_id in places and slave.conn_id in places:
                infos = {conn_id: stack.connection(place) for conn_id, place in places.items()}
                lines += told(Pair.of(replication, name, infos))
                lines += _safe_mode(stack, replication.prefix, name)
                lines += _verified(stack, replication.prefix, name)
    return lines


def _safe_mode(stack: Stack, prefix: Prefix, slave: str) -> list[str]:
    """While an apply runs: whether safe mode is on, why, and when it will end."""
    try:
        client = redis_store.connect(stack.redis_url)
        mode = Status(client, prefix, slave).read().get("safe_mode") if lease.held(client, prefix, slave) else None
    except SluiceError as error:
        return [f"    {error}"]
    return [f"    safe mode {mode}"] if mode else []


def _verified(stack: Stack, prefix: Prefix, slave: str) -> list[str]:
    try:
        return verified.told(verified.tables(stack, prefix, slave))
    except SluiceError as error:
        return [f"    {error}"]


def waiting(replication: Replication, master: ConnectionInfo) -> str:
    """How much is in ITEMS, and who holds the purge."""
    vendor = replication.master.vendor
    try:
        with vendors.reach(master, "sluice status") as session:
            schema = replication.master.schema
            if vendors.module(vendor, "resources").installed(session, replication.prefix, schema) is None:
                return f"{replication.prefix}: nothing is installed on the master yet"
            module = vendors.module(vendor, "purge")
            return f"{replication.prefix}: {module.backlog(session, replication.prefix, schema)}"
    except SluiceError as error:
        return f"{replication.prefix}: {error}"


def told(pair: Pair) -> list[str]:
    """State and message of the slave; of a load that is under way how far it is."""
    try:
        return list(_look(pair))
    except SluiceError as error:
        return [f"{pair}: {error}"]


def _look(pair: Pair) -> Iterable[str]:
    update = Update.named(pair, "status")
    with vendors.reach(pair.slave_info, "sluice status") as slave:
        found = checkpoints_of(update, slave).read()
        if found is None:
            yield f"{pair}: {SlaveState.UNCONFIGURED}: no initial update yet"
            return
        age = ""
        if found.state is SlaveState.NORMAL and found.position and found.position.time:
            age = f", current as of {found.position.time:.19}"
        yield f"{pair}: {found.state}{age}" + (f": {found.message}" if found.message else "")
        if found.state in LOADING:
            for line in progress(update, slave).lines():
                yield f"    {line}"
