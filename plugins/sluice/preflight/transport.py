"""Checks whether the network between here and a database or Redis can be read or changed by others, and whether Redis
lets us do what we need and keeps what we write."""

import pwd
from collections.abc import Iterable, Iterator
from contextlib import closing

import redis

from sluice.coordination import redis_check, redis_store
from sluice.coordination.redis_store import StoreRefuses
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo, stays_on_machine
from sluice.model.issue import MASTER, Issue, Severity

REDIS = "Redis"


def of_database(side: str, info: ConnectionInfo) -> list[Issue]:
    """A warning if the connection uses a network and its `sslmode` does not verify the server."""
    if stays_on_machine(info.host) or info.tls_mode == "verify-full":
        return []
    return [
        Issue(
            side,
            f"sslmode verify-full (the connection says {info.tls_mode})",
            "somebody between could pose as the server, and read or change all rows and the password",
            None,
            Severity.WARNING,
            remedy="Remove the connection's extra sslmode; docs/connections.md says what the server needs.",
            server=info.server,
        )
    ]


def of_redis(address: str) -> list[Issue]:
    """Commands that Redis refuses, as errors; warnings if it is reached in clear over a network, accepts clients
    without a password, or may lose what is written.

    Raises `redis-not-configured`, `StoreUnreachable`.
    """
    with closing(redis_store.connect(address)) as client:
        client.ping()
        way = redis_store.address_of(address)
        issues = list(_commands(client))
        if not way.secure and not stays_on_machine(way.host):
            issues.append(
                _warning(
                    "TLS",
                    "passwords, leases and gates cross the network in clear",
                    "Let Redis listen with TLS and set SLUICE_REDIS_URL to rediss://….",
                )
            )
        if redis_store.serves_anonymous_clients(address):
            issues.append(
                _warning(
                    "a password",
                    "everybody who reaches it may close gates, take leases and move positions that are kept there",
                    "Set requirepass, or ACL SETUSER default off, and put the login into SLUICE_REDIS_URL.",
                )
            )
        issues += _memory(client)
    return [issue.at(REDIS, way.server) for issue in issues]


def _commands(client: "redis.Redis") -> Iterator[Issue]:
    if refused := redis_check.refused_commands(client):
        reason = next(iter(refused.values())).rstrip(".")
        yield Issue(
            REDIS,
            f"the {'command' if len(refused) == 1 else 'commands'} {', '.join(refused)}",
            f"without them nothing says who applies and which gates are closed ({reason})",
            None,
            remedy="Run on Redis: ACL SETUSER <user> ~sluice:* &sluice:* +@read +@write +@scripting +@transaction "
            "+@connection +@pubsub",
        )


def _memory(client: "redis.Redis") -> Iterator[Issue]:
    """Warnings about keys that Redis may evict, refuse or forget; none if it does not let us ask."""
    info = redis_check.memory(client)
    policy, limit = info.get("maxmemory_policy", ""), int(info.get("maxmemory", 0))
    if limit and policy != "noeviction":
        yield _warning(
            "maxmemory-policy noeviction",
            f"with {policy} it may delete leases, gates and positions when its memory is full",
            "Run on Redis: CONFIG SET maxmemory-policy noeviction",
        )
    if limit and (used := int(info.get("used_memory", 0))) > redis_check.NEARLY * limit:
        yield _warning(
            "memory",
            f"{used:,} of {limit:,} bytes are in use; once they are, it refuses what applies write",
            "Raise maxmemory, or find what else fills it.",
        )
    for failing, what in (("rdb_last_bgsave_status", "snapshot"), ("aof_last_write_status", "log")):
        if info.get(failing, "ok") != "ok":
            yield _warning(
                f"a {what} that can be written",
                f"its last {what} failed; by default it then refuses every write",
                "Its log says why: mostly its disk is full.",
            )


def _warning(what: str, why: str, remedy: str) -> Issue:
    return Issue(REDIS, what, why, None, Severity.WARNING, remedy=remedy)


def of_capture_host(accounts: Iterable[pwd.struct_passwd], uid: int) -> list[Issue]:
    """A warning if people other than the user `uid` can log in to the machine that reads redo logs."""
    others = sorted(
        each.pw_name
        for each in accounts
        if _PEOPLE <= each.pw_uid < _NOBODY and each.pw_uid != uid and not each.pw_shell.endswith(_NO_SHELLS)
    )
    if not others:
        return []
    some = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
    return [
        Issue(
            MASTER,
            f"a capture host without other users ({some} can log in)",
            "OpenLogReplicator asks nobody who connects to its port: every user of this machine can read there all "
            "changes of the database, those of tables that are not replicated, too",
            None,
            Severity.WARNING,
            remedy="Run capture_redo on a machine, or in a container, where only its own user runs programs.",
        )
    ]


_PEOPLE, _NOBODY = 1000, 65534
"""Accounts of people have uids from the first one on; the second one is nobody's."""
_NO_SHELLS = ("/nologin", "/false", "/sync")


def no_redis(error: SluiceError) -> Issue:
    """Redis is not configured, does not answer or refuses us; an outage is a warning, as tasks that need it wait."""
    severity = Severity.ERROR if isinstance(error, StoreRefuses) else Severity.WARNING
    return Issue(REDIS, "an answer", str(error).rstrip("."), None, severity)
