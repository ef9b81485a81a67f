"""How to connect to a database: the values of an Airflow connection."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any

from sluice.model.vendors import FIRST, VENDORS

OPTIONS = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "target_session_attrs"})
"""Driver options that every connection may have; a vendor may have more. Sluice sets everything else."""

TLS_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""The values of `sslmode`, from weak to strong. Only the last one verifies the server's name."""


def known_options(vendor: str) -> frozenset[str]:
    """The options that connections of a vendor may have."""
    return OPTIONS.union(VENDORS[vendor].options)


def option_fault(options: Mapping[str, str], vendor: str = FIRST) -> str | None:
    """What is wrong with the options of a connection, as the end of a sentence; None if nothing is."""
    known = known_options(vendor)
    if strange := sorted(options.keys() - known):
        return f"has {', '.join(strange)}; known are {', '.join(sorted(known))}."
    if not options.get("connect_timeout", "1").isdecimal():
        return f"has connect_timeout {options['connect_timeout']!r}; it must be whole seconds."
    if options.get("sslmode", "prefer") not in TLS_MODES:
        return f"has sslmode {options['sslmode']!r}; it must be one of {', '.join(TLS_MODES)}."
    if options.get("sslmode") in ("disable", "allow", "prefer") and options.get("wallet_location"):
        return f"has a wallet_location, and sslmode {options['sslmode']!r}, which uses none: leave one of them out."
    if options.get("thick_mode", "false").lower() not in ("true", "false"):
        return f"has thick_mode {options['thick_mode']!r}; it must be true or false."
    return None


def stays_on_machine(host: str) -> bool:
    """Whether `host` names this machine: a socket's folder, localhost or a loopback address; of a list, all of them."""
    return all(_is_loopback(each.strip()) for each in host.split(","))


def _is_loopback(host: str) -> bool:
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class ConnectionInfo:
    """One database as a client connects to it. The password is in no `repr`, log or error."""

    vendor: str
    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Driver options, of `known_options`."""
    conn_id: str = field(default="", compare=False)
    """The name of the Airflow connection; empty without one."""
    mask: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Patterns of columns whose values errors of this database must not show, see `Mask`."""
    trusts_owners: bool = field(default=True, compare=False)
    """Whether tables are read although expressions of them call functions of their owners."""
    stream: str = field(default="", compare=False)
    """The folder of the stream, for a master whose rows are read beside a stream of its log."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", tuple(self.mask))
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))

    @property
    def server(self) -> str:
        """For messages: the address, and the connection's name."""
        return f"{self.address} (connection {self.conn_id})" if self.conn_id else self.address

    @property
    def address(self) -> str:
        """`user@host:port/database`; of a folder its path."""
        if not self.host:
            return self.database
        return f"{self.user}@{self.host}:{self.port}/{self.database}"

    @property
    def tls_mode(self) -> str:
        """The `sslmode` of the connection; the default over a network verifies the server's name."""
        proved = not stays_on_machine(self.host) or "wallet_location" in self.options
        return self.options.get("sslmode") or ("verify-full" if proved else "prefer")

    def given_up_after(self, seconds: int) -> "ConnectionInfo":
        """The same database, with a short time limit for connecting."""
        return replace(self, options={**self.options, "connect_timeout": str(seconds)})

    def to_dict(self) -> dict[str, object]:
        """Plain values with the password: only for a channel that nobody else reads."""
        names = ("vendor", "host", "port", "database", "user", "password", "conn_id", "trusts_owners", "stream")
        return {**{name: getattr(self, name) for name in names}, "options": dict(self.options), "mask": list(self.mask)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ConnectionInfo":
        return cls(**values)

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy does not pickle, and Spark carries this to its executors.
        return (ConnectionInfo.from_dict, (self.to_dict(),))
