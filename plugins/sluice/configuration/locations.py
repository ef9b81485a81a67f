"""Places for files: one, or a list of them."""

from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Node, Section, parts
from sluice.model.location import Location, NoLocation

_A_LOCATION = "write an absolute folder without .., or s3://bucket/key with a bucket's name as S3 wants it"


def location(section: Section) -> str | None:
    """Where a slave finds carried files; None where nothing is said."""
    text = section.text("initial_files_location", "", _A_LOCATION)
    if not text:
        return None
    node = section.get("initial_files_location")
    assert node is not None
    _check_location(node, text, section.mistakes)
    return text


def _check_location(node: Node, text: str, mistakes: list[Mistake]) -> None:
    try:
        Location.parse(text)
    except NoLocation:
        mistakes.append(node.mistake(f"{text!r} is neither an absolute folder nor a place in S3", _A_LOCATION))


def locations(section: Section, name: str) -> tuple[str, ...]:
    """A list, or a text with commas, as property files have it."""
    right = f"write a list such as [/mnt/disk, s3://bucket/prefix]; of each, {_A_LOCATION}"
    node = section.get(name)
    if node is None:
        return ()
    if isinstance(node.value, str):
        texts = [(node, text) for text in parts(node.value)]
    elif isinstance(node.value, list):
        texts = [(child, child.value.strip() if isinstance(child.value, str) else "") for child in node.value]
    else:
        section.mistakes.append(node.mistake(f"is {node.kind}", right))
        return ()
    for each, text in texts:
        _check_location(each, text, section.mistakes)
    return tuple(text for _, text in texts)
