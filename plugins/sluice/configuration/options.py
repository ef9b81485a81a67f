"""The sections with options of the whole replication: apply, initial, verify, notify, items_limit."""

import re
from dataclasses import replace
from typing import Any

from sluice.configuration.mistakes import Mistake
from sluice.configuration.model import ApplyOptions, InitialOptions, NotifierConfig, VerifyOptions
from sluice.configuration.nodes import Node, Section
from sluice.configuration.option import read
from sluice.model.items_limit import ItemsLimit


def apply(section: Section) -> ApplyOptions:
    found = read(section, "apply", ApplyOptions)
    if found.poll_interval >= found.lease:
        named = section.inside("apply", "poll_interval") or section.inside("apply", "lease")
        assert named is not None, "they are not so by default"
        section.mistakes.append(
            named.mistake(
                f"poll_interval {found.poll_interval:g} is not below lease {found.lease:g}: the right to apply would "
                "run out between looks",
                "lower poll_interval or raise lease",
            )
        )
    return found


def initial(section: Section) -> InitialOptions:
    limit = section.inside("initial", "throttle", "query_limit")
    if limit is not None and section.inside("initial", "throttle", "query") is None:
        section.mistakes.append(limit.mistake("is the limit of a query that is not there", "add query, or take it out"))
    return read(section, "initial", InitialOptions)


def verify(section: Section) -> VerifyOptions:
    found = read(section, "verify", VerifyOptions)
    # Who wants no verification is not reminded of it.
    unwanted = found.schedule == "never" and section.inside("verify", "max_age_days") is None
    return replace(found, max_age_days=0) if unwanted else found


def notify(section: Section, mistakes: list[Mistake]) -> tuple[NotifierConfig, ...]:
    """The section `notify`; without it, what is usual."""
    node = section.get("notify")
    right = "write a notifier's class with its arguments, e.g. my_company.notifiers.Pager: {team: databases}"
    if node is None:
        return ()
    if not isinstance(node.value, dict):
        mistakes.append(node.mistake(f"is {node.kind}", right))
        return ()
    notifiers = []
    for path, child in node.value.items():
        arguments = {} if child.value is None else _plain(child)
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", path):
            mistakes.append(child.mistake(f"{path!r} is no class of a module", right))
        elif not isinstance(arguments, dict):
            mistakes.append(child.mistake(f"is {child.kind}", right))
        else:
            notifiers.append(NotifierConfig(path, arguments))
    return tuple(notifiers)


def items_limit(section: Section, mistakes: list[Mistake]) -> ItemsLimit:
    """The section `items_limit`; without it, what is usual."""
    node = section.get("items_limit")
    if node is None:
        return ItemsLimit()
    options = Section(node, mistakes)
    limit = ItemsLimit(
        rows=options.integer("rows", None, 1, 10**15),
        bytes=options.integer("bytes", None, 1, 10**17),
        age=options.number("age", None, 1, 1e9, "seconds"),
    )
    options.finish()
    return limit


def _plain(node: Node) -> Any:
    """Texts, lists and mappings of them."""
    if isinstance(node.value, dict):
        return {name: _plain(child) for name, child in node.value.items()}
    if isinstance(node.value, list):
        return [_plain(child) for child in node.value]
    return node.value
