"""Installs, upgrades and checks the DbResources of a prefix."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from sluice.database import lock_waits
from sluice.database.capture import Installation
from sluice.database.registry import master_of
from sluice.database.session import Session
from sluice.model.names import Prefix

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InstallReport:
    """The result of an installation; `files` is empty if there was nothing to do."""

    prefix: Prefix
    schema: str
    before: int | None
    """The version found; None when nothing was installed."""
    after: int
    files: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return bool(self.files)


def install(connection: Session, prefix: Prefix, schema: str, cascade: Iterable[Prefix] = ()) -> InstallReport:
    """Updates the DbResources of `prefix` in `schema` to this release's version, in one transaction,
    or in a few if keys are drawn otherwise from then on.

    `cascade`: the replications that apply to this database and whose changes are captured, too; triggers with another
    setting are outdated, and are created again by reconciling. A second run changes nothing and takes no lock on any
    table. If a lock is held, it begins again. Raises `Terminal` if a newer release installed it, names are taken, the
    schema is unsafe, or it is installed in another one.
    """
    connection.expect_idle()
    vendor = master_of(connection.vendor)
    resources, origins = vendor.capture(connection, prefix, schema), tuple(cascade)

    def prepare(step: Callable[[], None]) -> None:
        with connection.transaction():
            vendor.sessions.limit_lock_waits(connection, lock_waits.LOCK_SECONDS)
            resources.lock()
            step()

    def upgrade() -> tuple[Installation | None, list[str]]:
        with connection.transaction():
            vendor.sessions.limit_lock_waits(connection, lock_waits.LOCK_SECONDS)
            resources.lock()
            have = resources.installed()
            files = resources.upgrade(have)
            if resources.pass_on(origins):
                others = ", ".join(map(str, origins)) or "no other replication"
                log.info("%s: changes of %s are passed on", prefix, others)
        return have, files

    with connection.transaction():
        steps = resources.ahead(resources.installed())
    for step in steps:
        lock_waits.until_unlocked(partial(prepare, step))
    have, files = lock_waits.until_unlocked(upgrade)
    report = InstallReport(prefix, schema, have.version if have else None, resources.latest, tuple(files))
    if report.changed:
        log.info("%s: DbResources brought to version %s (%s)", prefix, report.after, ", ".join(files))
    else:
        log.info("%s: DbResources are current, nothing to do", prefix)
    return report
