"""Sets of transactions as MariaDB writes them: the last one of each domain, `0-71-6,7-1-5`."""

from dataclasses import dataclass

from sluice.vendors.mysql.binlog.events import Gtid


@dataclass(frozen=True)
class Transactions:
    """All transactions up to the last one of each domain."""

    last: tuple[tuple[int, int, int], ...] = ()
    """Domain, server, sequence; in the order of the domains."""

    @classmethod
    def parse(cls, text: str) -> "Transactions":
        """Raises `ValueError`."""
        parts = [tuple(map(int, part.split("-"))) for part in text.split(",") if part.strip()]
        if any(len(part) != 3 for part in parts):
            raise ValueError(f"{text!r} is no set of transactions")
        return cls(tuple(sorted((domain, server, sequence) for domain, server, sequence in parts)))

    def covers(self, gtid: Gtid) -> bool:
        return any(domain == gtid.domain and gtid.sequence <= sequence for domain, _, sequence in self.last)

    def covers_all_of(self, other: "Transactions") -> bool:
        own = {domain: sequence for domain, _, sequence in self.last}
        return all(own.get(domain, -1) >= sequence for domain, _, sequence in other.last)

    def plus(self, gtid: Gtid) -> "Transactions":
        """With one more, which comes after them."""
        rest = [part for part in self.last if part[0] != gtid.domain]
        return Transactions(tuple(sorted([*rest, (gtid.domain, gtid.server, gtid.sequence)])))

    def __str__(self) -> str:
        return ",".join("-".join(map(str, part)) for part in self.last)
