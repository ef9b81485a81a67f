"""An apply in its own process, to be killed: prefix and connections are JSON on its standard input."""

import json
import sys
import threading

from sluice import config
from sluice.apply.apply_loop import ApplyLoop
from sluice.coordination import redis_store
from sluice.executor import ThreadExecutor
from sluice.model.connection import ConnectionInfo
from sluice.pair import Pair


def main() -> None:
    given = json.load(sys.stdin)
    pair = Pair.of(config.load(given["prefix"]), "dr1", {"s": ConnectionInfo.from_dict(given["slave"])})
    ApplyLoop(pair, redis_store.connect(given["redis_url"]), ThreadExecutor(2), threading.Event()).run()


if __name__ == "__main__":
    main()
