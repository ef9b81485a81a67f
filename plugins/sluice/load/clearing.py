"""Removes old folders of carried files that no slave waits for."""

import logging
from collections.abc import Collection
from datetime import datetime

from sluice.load.transfer.transfer_folder import NotComplete, TransferFolder, owner_of_note
from sluice.model.location import INCOMPLETE, Location, S3Access, began
from sluice.model.manifest import ManifestDamaged
from sluice.model.names import Prefix
from sluice.storage.folder import FileGone
from sluice.storage.opening import open_location

log = logging.getLogger("sluice.load")


def clear(
    location: Location,
    access: S3Access,
    key: bytes | None,
    prefix: Prefix,
    before: datetime,
    awaited: Collection[str | None],
) -> int:
    """Removes the folders in `location` of initial updates of `prefix` that began before `before`. Returns how many.

    Keeps folders of updates that are `awaited`, and folders whose owner is unknown: partly copied or unreadable ones.
    Raises errors of the location.
    """
    removed = 0
    for name in open_location(location, access).folders():
        carried = TransferFolder(location.below(name), access, key)
        owner = _owner(carried) if began(name) < before else None
        if owner is None or owner[0] != str(prefix) or owner[1] in awaited:
            continue
        carried.folder.clear()
        log.info("%s is removed: it is of initial update %s of %s, which is over", carried.location, owner[1], prefix)
        removed += 1
    return removed


def _owner(carried: TransferFolder) -> tuple[str, str] | None:
    """The prefix and initial update of a folder; None if unknown."""
    try:
        manifest = carried.manifest()
        return str(manifest.prefix), manifest.update_id
    except ManifestDamaged as damaged:
        log.info("%s stays: %s", carried.location, damaged)
        return None
    except NotComplete:
        try:
            return owner_of_note(b"".join(carried.folder.read(INCOMPLETE)))
        except FileGone:
            return None
