"""Opens a location or a folder, in a directory or in S3, and checks locations against the configuration.

Libraries for S3 are imported only for S3.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sluice.errors import Terminal
from sluice.model.location import Location, S3Access
from sluice.storage.directory import DirectoryFolder, DirectoryStorage
from sluice.storage.folder import Folder, Storage


def open_location(location: Location, access: S3Access) -> Storage:
    """Does not access the location yet."""
    if location.bucket is None:
        return DirectoryStorage(location)
    from sluice.storage.bucket import BucketStorage

    return BucketStorage(location, access)


def open_folder(location: Location, access: S3Access) -> Folder:
    """Does not access the location yet."""
    if location.bucket is None:
        return DirectoryFolder(location)
    from sluice.storage.bucket import BucketFolder

    return BucketFolder(location, access)


def location_not_allowed(location: Location, configured: Iterable[Location], source: Path) -> Terminal:
    """The configuration does not allow files at this location."""
    listed = ", ".join(_yaml(str(each)) for each in (*configured, location))
    return Terminal(
        f"Location {str(location)!r}, with its symbolic links resolved, is not allowed by {source}. The person who "
        f"keeps that file may add there: initial: {{locations: [{listed}]}}. Or choose a location that is allowed. "
        "Nothing was touched.",
        code="location-not-allowed",
    )


def allowed_location(location: Location, configured: Iterable[str], source: Path) -> Location:
    """The location, if it is one of the `configured` ones or below one. The part below it has no symbolic links.

    `source`: the file of the configuration, for messages. Raises `location-not-allowed`.
    """
    allowed = [Location.parse(text) for text in configured]
    for permitted in allowed:
        rest = _real(location).path_below(_real(permitted))
        if rest is not None:
            return permitted.below(rest) if rest else permitted
    raise location_not_allowed(location, allowed, source)


def _real(location: Location) -> Location:
    return location if location.bucket is not None else replace(location, path=os.path.realpath(location.path))


def _yaml(text: str) -> str:
    """The text as a scalar of a YAML list."""
    return text if re.fullmatch(r"[\w/.=:-]+", text) else json.dumps(text, ensure_ascii=False)
