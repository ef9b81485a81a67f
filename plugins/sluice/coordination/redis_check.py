"""What this Redis lets us do, and how full it is: for the preflight and the monitor."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import redis

from sluice.coordination.redis_store import StoreRefuses, StoreUnreachable

NEARLY = 0.8
"""The share of its memory from which it is nearly full."""
MONITOR = "sluice:check:monitor"
"""Keys of the monitor's probe. Always the same, so that none are left if Redis refuses to delete them."""


def refusal(client: "redis.Redis") -> str:
    """Why applies cannot work with this Redis although it answers, in a sentence; empty if they can.

    Raises `StoreUnreachable` if it does not answer.
    """
    client.ping()
    try:
        refused = refused_commands(client, MONITOR)
    except StoreUnreachable as failure:
        return str(failure)
    if not refused:
        return ""
    return (
        f"Redis refuses {', '.join(refused)} to the user of SLUICE_REDIS_URL. Give it the right with ACL SETUSER; no "
        "apply has to be restarted."
    )


def refused_commands(client: "redis.Redis", start: str = "") -> dict[str, str]:
    """The commands that it refuses, with its reasons: tries each that we use, on keys that last for a minute.

    `start`: of the keys' names; by default another one each time.
    """
    start = start or f"sluice:check:{uuid4().hex}"
    text, table, items, stream, names = (f"{start}:{kind}" for kind in ("text", "hash", "list", "stream", "set"))
    tried: dict[str, Callable[[], object]] = {
        "SET": lambda: client.set(text, "1", nx=True, px=60_000),
        "GET": lambda: client.get(text),
        "MGET": lambda: client.mget(text),
        "EXISTS": lambda: client.exists(text),
        "INCR": lambda: client.incr(text),
        "EVAL": lambda: client.eval("return redis.call('PEXPIRE', KEYS[1], ARGV[1])", 1, text, 60_000),
        "HSET": lambda: client.hset(table, "a", "1"),
        "HSETNX": lambda: client.hsetnx(table, "b", "1"),
        "HGET": lambda: client.hget(table, "a"),
        "HGETALL": lambda: client.hgetall(table),
        "HDEL": lambda: client.hdel(table, "b"),
        "RPUSH": lambda: client.rpush(items, "1"),
        "LRANGE": lambda: client.lrange(items, 0, -1),
        "LINDEX": lambda: client.lindex(items, 0),
        "LREM": lambda: client.lrem(items, 1, "2"),
        "LTRIM": lambda: client.ltrim(items, 0, 9),
        "XADD": lambda: client.xadd(stream, {"a": "1"}),
        "XRANGE": lambda: client.xrange(stream),
        "XREVRANGE": lambda: client.xrevrange(stream),
        "SADD": lambda: client.sadd(names, "1"),
        "SMEMBERS": lambda: client.smembers(names),
        "SCAN": lambda: client.scan(match=f"{start}*"),
        "MULTI": lambda: _in_transaction(client, text),
        "EXPIRE": lambda: [client.expire(key, 60) for key in (text, table, items, stream, names)],
        "DEL": lambda: client.delete(text, table, items, stream, names),
    }
    refused: dict[str, str] = {}
    for command, run in tried.items():
        try:
            run()
        except StoreUnreachable as failure:
            error = failure.__cause__
            # Within a script it is an error of the script; the driver does not tell the answer to MULTI.
            markers = ("can't run this command", "without MULTI")
            refusal = isinstance(error, redis.exceptions.NoPermissionError)
            if not refusal and not any(marker in str(error) for marker in markers):
                raise
            refused[command] = str(error)
    return refused


def _in_transaction(client: "redis.Redis", key: str) -> None:
    with client.pipeline() as pipe:
        pipe.get(key)
        pipe.execute()


def memory(client: "redis.Redis") -> dict[str, str]:
    """What INFO says of memory and persistence; empty if it does not let us ask."""
    try:
        info = {**client.info("memory"), **client.info("persistence")}
    except StoreRefuses:
        return {}
    return {str(name): str(value) for name, value in info.items()}


def warnings(client: "redis.Redis") -> Iterator[str]:
    """What may make it lose or refuse keys later, in sentences with the remedy; none if it does not let us ask."""
    info = memory(client)
    policy, limit = info.get("maxmemory_policy", ""), int(info.get("maxmemory", 0))
    if limit and policy != "noeviction":
        yield (
            f"Redis may delete leases, gates and positions when its memory is full: its maxmemory-policy is {policy}. "
            "Run on Redis: CONFIG SET maxmemory-policy noeviction"
        )
    if limit and (used := int(info.get("used_memory", 0))) > NEARLY * limit:
        yield (
            f"Redis has {used:,} of {limit:,} bytes in use; once they are, it refuses what applies write. Raise "
            "maxmemory, or find what else fills it."
        )
