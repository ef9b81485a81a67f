"""An apply of the replication REC_ in a process of its own, to be killed: connections as JSON on its standard input."""

import json
import sys
import threading

from sluice import config
from sluice.apply.apply_loop import ApplyLoop
from sluice.apply.executor import ThreadExecutor
from sluice.coordination import redis_store
from sluice.model.connection import ConnectionInfo
from sluice.pair import Pair


def main() -> None:
    given = json.load(sys.stdin)
    pair = Pair.of(config.load("REC_"), "dr1", {"s": ConnectionInfo.from_dict(given["slave"])})
    ApplyLoop(pair, redis_store.connect(given["redis_url"]), ThreadExecutor(2), threading.Event()).run()


if __name__ == "__main__":
    main()
