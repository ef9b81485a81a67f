"""A merge in its own process, to be killed; arguments: the folder of the threads, and the stream's."""

import sys
import threading
from pathlib import Path

from sluice.model.names import Prefix
from sluice.vendors.stream.redo.merger import Limits, Merger

if __name__ == "__main__":
    Merger(Path(sys.argv[1]), Path(sys.argv[2]), Prefix("ORA_"), limits=Limits(group=5)).run(threading.Event())
