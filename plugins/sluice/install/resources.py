"""Installs, upgrades and checks the DbResources of a prefix."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from sluice.database.session import Session
from sluice.domain.names import Prefix
from sluice.vendors.postgres import resources, session
from sluice.vendors.postgres.resources import Installation

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InstallReport:
    """What an installation did; `files` is empty when there was nothing to do."""

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
    """Brings the DbResources of `prefix` in `schema` to this release's version, in one transaction.

    `cascade`: the replications that apply to this database and whose changes are captured, too; triggers that were
    made for others are out of date, and reconciling makes them again. A second run changes nothing and takes no lock on
    any table. Where a lock is held, it begins anew. Raises `ResourcesNewer`, `NamesTaken`, `SchemaUnsafe`,
    `InstalledElsewhere`.
    """
    resources.expect_idle(connection)
    origins = tuple(cascade)

    def upgrade() -> tuple[Installation | None, list[str]]:
        with connection.transaction():
            session.limit_lock_waits(connection, session.LOCK_SECONDS)
            resources.lock(connection, prefix, schema)
            have = resources.installed(connection, prefix, schema)
            files = resources.upgrade(connection, prefix, schema, have)
            if resources.pass_on(connection, prefix, schema, origins):
                others = ", ".join(map(str, origins)) or "no other replication"
                log.info("%s: changes of %s are passed on", prefix, others)
        return have, files

    have, files = session.until_unlocked(upgrade)
    report = InstallReport(prefix, schema, have.version if have else None, len(resources.STEPS), tuple(files))
    if report.changed:
        log.info(
            "%s: DbResources in schema %s brought to version %s (%s)", prefix, schema, report.after, ", ".join(files)
        )
    else:
        log.info("%s: DbResources in schema %s are current, nothing to do", prefix, schema)
    return report
