"""The location and names of the files of an initial update.

`<location>/<unique timestamp>/<prio>-<timestamp>`: the location is a folder or a place in S3, the unique timestamp
names the folder of one update, and the files in it sort in the order of loading.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sluice.errors import Terminal

BLOCK_PRIORITY = 7
"""The priority of xmlBlaster's initial data."""
END_PRIORITY = 8
MANIFEST_PRIORITY = 9
"""Higher priorities for the two end-of-update messages, so that they come last even if clocks differ."""
INCOMPLETE = "INCOMPLETE"
"""The file that marks a folder as incomplete, and names its update."""

_FOLDER = re.compile(r"\d{8}T\d{6}\.\d{6}Z\Z")
_FILE = re.compile(r"[789]-\d{8}T\d{6}\.\d{9}Z\Z")
_S3 = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9!_.*'()=+@,:/-]*))?\Z")


class NoLocation(Terminal):
    """`text` is neither an absolute folder nor a place in S3."""

    def __init__(self, text: str):
        super().__init__(
            f"Location {text!a} is neither an absolute folder nor a place in S3. Write /some/folder or "
            "s3://bucket/prefix, without .. and control characters; a prefix is of letters, digits and "
            "!_.*'()=+@,:/-"
        )


@dataclass(frozen=True)
class S3Access:
    """How to connect to S3; for empty values boto3 decides (environment, profile, role of the machine)."""

    key_id: str = ""
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    endpoint: str = ""
    region: str = ""
    ca: str = ""
    """The file of the authorities that certify the endpoint, on every machine that connects to it."""

    def to_dict(self) -> dict[str, object]:
        """Plain values with the secret: only for a channel that nobody else reads."""
        return {name: getattr(self, name) for name in ("key_id", "secret", "token", "endpoint", "region", "ca")}


@dataclass(frozen=True)
class Location:
    """A folder of this machine (no `bucket`, an absolute `path`), or a place in S3 (`path`: the prefix of its keys)."""

    bucket: str | None
    path: str

    @classmethod
    def parse(cls, text: str) -> "Location":
        """Raises `NoLocation`."""
        parts = text.split("/")
        if ".." in parts or not text.isprintable():
            raise NoLocation(text)
        if (match := _S3.match(text)) and "." not in parts:
            return cls(match[1], (match[2] or "").strip("/"))
        if not text.startswith("/"):
            raise NoLocation(text)
        return cls(None, "/" + "/".join(part for part in parts if part not in ("", ".")))

    def path_below(self, outer: "Location") -> str | None:
        """The rest of `path` below that of `outer`; empty if both are the same, None if it is elsewhere."""
        begins = outer.path.rstrip("/") + "/" if outer.path else ""
        if self.bucket != outer.bucket or not f"{self.path.rstrip('/')}/".startswith(begins):
            return None
        return self.path[len(begins) :]

    def below(self, name: str) -> "Location":
        """The place `name` inside this one."""
        return Location(self.bucket, f"{self.path.rstrip('/')}/{name}" if self.path else name)

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> "Location":
        above = self.path.rpartition("/")[0]
        return Location(self.bucket, above if self.bucket is not None else above or "/")

    def __str__(self) -> str:
        return self.path if self.bucket is None else f"s3://{self.bucket}/{self.path}".rstrip("/")


def folder_name(nanoseconds: int) -> str:
    """The folder of an update that began at this time (since 1970, UTC)."""
    return f"{_moment(nanoseconds)}.{nanoseconds // 1000 % 1_000_000:06d}Z"


def file_name(priority: int, nanoseconds: int) -> str:
    """The file of a block or message that was queued at this time."""
    return f"{priority}-{_moment(nanoseconds)}.{nanoseconds % 1_000_000_000:09d}Z"


def is_folder_name(name: str) -> bool:
    return bool(_FOLDER.match(name))


def began(folder: str) -> datetime:
    """When the update of a folder began, from its name."""
    return datetime.strptime(folder, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)


def is_file_name(name: str, priority: int | None = None) -> bool:
    """Whether `name` has the form of `file_name`, so that it cannot lead anywhere else."""
    return bool(_FILE.match(name)) and (priority is None or name.startswith(f"{priority}-"))


def _moment(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC).strftime("%Y%m%dT%H%M%S")
