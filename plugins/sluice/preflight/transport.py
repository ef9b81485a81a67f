"""Checks whether the network between here and a database or Redis can be read or changed by others."""

import pwd
from collections.abc import Iterable
from contextlib import closing

from sluice.coordination import redis_store
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo, stays_on_machine
from sluice.model.lack import MASTER, Lack, Severity

REDIS = "Redis"


def of_database(side: str, info: ConnectionInfo) -> list[Lack]:
    """A warning if the connection uses a network and its `sslmode` does not verify the server."""
    if stays_on_machine(info.host) or info.tls_mode == "verify-full":
        return []
    return [
        Lack(
            side,
            f"sslmode verify-full (the connection says {info.tls_mode})",
            "somebody between could pose as the server, and read or change all rows and the password",
            None,
            Severity.WARNING,
            remedy="Remove the connection's extra sslmode; docs/connections.md says what the server needs.",
            place=info.place,
        )
    ]


def of_redis(address: str) -> list[Lack]:
    """Warnings if Redis is reached in clear over a network, or accepts clients without a password.

    Raises `StoreNotConfigured`, `StoreUnreachable`.
    """
    with closing(redis_store.connect(address)) as client, redis_store.classified():
        client.ping()
        lacks = []
        way = redis_store.address_of(address)
        place = way.place
        if not way.secure and not stays_on_machine(way.host):
            lacks.append(
                Lack(
                    REDIS,
                    "TLS",
                    "passwords, leases and gates cross the network in clear",
                    None,
                    Severity.WARNING,
                    remedy="Let Redis listen with TLS and set SLUICE_REDIS_URL to rediss://….",
                    place=place,
                )
            )
        if redis_store.serves_anonymous_clients(address):
            lacks.append(
                Lack(
                    REDIS,
                    "a password",
                    "everybody who reaches it may close gates, take leases and move positions that are kept there",
                    None,
                    Severity.WARNING,
                    remedy="Set requirepass, or ACL SETUSER default off, and put the login into SLUICE_REDIS_URL.",
                    place=place,
                )
            )
    return lacks


def of_capture_host(accounts: Iterable[pwd.struct_passwd], uid: int) -> list[Lack]:
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
        Lack(
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


def no_redis(error: SluiceError) -> Lack:
    """A warning: Redis is not configured or does not answer. Tasks that need it wait, or fail with their own error."""
    return Lack(REDIS, "an answer", str(error).rstrip("."), None, Severity.WARNING)
