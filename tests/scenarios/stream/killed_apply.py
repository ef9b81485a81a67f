"""An apply of the replication REC_ in a process of its own, to be killed: connections as JSON on its standard input."""

import json
import sys
import threading

from sluice import config
from sluice.apply.loop import Apply
from sluice.apply.spread import InThreads
from sluice.domain.connection import ConnectionInfo
from sluice.pair import Pair
from sluice.stores import redis_store


def main() -> None:
    given = json.load(sys.stdin)
    pair = Pair.of(config.load("REC_"), "dr1", {"s": ConnectionInfo.from_dict(given["slave"])})
    Apply(pair, redis_store.connect(given["redis_url"]), InThreads(2), threading.Event()).run()


if __name__ == "__main__":
    main()
