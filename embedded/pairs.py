"""What `./sluice status` says of the replications whose master and slave are of this stack."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from embedded import verified
from embedded.stack import Stack
from sluice import config, vendors
from sluice.config import Replication
from sluice.domain.connection import ConnectionInfo
from sluice.domain.names import Prefix
from sluice.domain.state import SlaveState
from sluice.errors import SluiceError
from sluice.initial.progress import progress
from sluice.initial.update import Update
from sluice.pair import Pair

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
                lines += _verified(stack, replication.prefix, name)
    return lines


def _verified(stack: Stack, prefix: Prefix, slave: str) -> list[str]:
    try:
        return verified.told(verified.tables(stack, prefix, slave))
    except SluiceError as error:
        return [f"    {error}"]


def waiting(replication: Replication, master: ConnectionInfo) -> str:
    """How much is in ITEMS, and who holds the purge."""
    vendor = replication.master.vendor
    driver = vendors.module(vendor, "connection")
    try:
        connection = driver.connect(master, application="sluice status", autocommit=True)
        try:
            with driver.classified(master):
                schema = replication.master.schema
                if vendors.module(vendor, "resources").installed(connection, replication.prefix, schema) is None:
                    return f"{replication.prefix}: nothing is installed on the master yet"
                module = vendors.module(vendor, "purge")
                return f"{replication.prefix}: {module.backlog(connection, replication.prefix, schema)}"
        finally:
            connection.close()
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
    slave = update.connect_slave("sluice status")
    try:
        with vendors.module(pair.slave_info.vendor, "connection").classified(pair.slave_info):
            store: Any = vendors.module(pair.slave_info.vendor, "checkpoint").CheckpointStore(
                slave, pair.prefix, pair.slave.schema, pair.slave.name
            )
            found = store.read()
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
    finally:
        slave.close()
