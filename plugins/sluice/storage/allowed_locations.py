"""Checks locations of files against the configuration, with symbolic links resolved."""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sluice.errors import Terminal
from sluice.model.location import Location


def location_not_allowed(location: Location, configured: Iterable[Location], source: Path) -> Terminal:
    """The configuration does not allow files at this location."""
    listed = ", ".join(_yaml(str(place)) for place in (*configured, location))
    return Terminal(
        f"Location {str(location)!r}, with its symbolic links resolved, is not allowed by {source}. The person who "
        f"keeps that file may add there: initial: {{locations: [{listed}]}}. Or choose a location that is allowed. "
        "Nothing was touched.",
        code="location-not-allowed",
    )


def allowed(location: Location, configured: Iterable[str], source: Path) -> Location:
    """The location, if it is one of the `configured` ones or below one. The part below it has no symbolic links.

    `source`: the file of the configuration, for messages. Raises `location-not-allowed`.
    """
    places = [Location.parse(text) for text in configured]
    for place in places:
        rest = _real(location).path_below(_real(place))
        if rest is not None:
            return place.below(rest) if rest else place
    raise location_not_allowed(location, places, source)


def _real(location: Location) -> Location:
    return location if location.bucket is not None else replace(location, path=os.path.realpath(location.path))


def _yaml(text: str) -> str:
    """The text as a scalar of a YAML list."""
    return text if re.fullmatch(r"[\w/.=:-]+", text) else json.dumps(text, ensure_ascii=False)
