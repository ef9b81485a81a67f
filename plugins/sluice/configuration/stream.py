"""A master whose changes are recorded in files (`capture: stream`)."""

from dataclasses import replace

from sluice.configuration.mistakes import Mistake
from sluice.configuration.model import Endpoint, VerifyOptions
from sluice.configuration.nodes import Section
from sluice.model.location import Location, NoLocation
from sluice.model.vendors import FIRST, VENDORS

_FOLDER = "write the absolute folder of the recorded files, without .."


def endpoint(section: Section, mistakes: list[Mistake]) -> Endpoint:
    """From the lines of the master."""
    vendor = section.choice("vendor", VENDORS, FIRST, "vendors")
    location = section.text("location", "", _FOLDER)
    node = section.get("location")
    if node is None:
        section.missing("location", _FOLDER)
    elif location:
        try:
            if Location.parse(location).bucket is not None:
                mistakes.append(node.mistake(f"{location!r} is a place in S3", _FOLDER))
        except NoLocation:
            mistakes.append(node.mistake(f"{location!r} is no absolute folder", _FOLDER))
    after = section.integer("after", None, 0, 10**18 - 1)
    section.finish()
    return Endpoint("", vendor, capture="stream", location=location, after=after)


def verified(master: Endpoint, verify: VerifyOptions, section: Section, mistakes: list[Mistake]) -> VerifyOptions:
    """What is left of `verify`: a stream has no rows to compare with, and nothing waits on its master. Rows to load it
    has beside redo, where `conn_id` names its database."""
    if not master.stream:
        return verify
    for name in ("items_limit",) if master.conn_id else ("initial", "items_limit"):
        if node := section.get(name):
            mistakes.append(node.mistake("means nothing with capture: stream", "take it out, see docs/stream.md"))
    return replace(verify, schedule="never", max_age_days=0)
