"""A load job in a process that can be killed."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

from sluice.load.update import Update
from sluice.model.blocks import BlockState
from tests.rig.rig import Rig
from tests.scenarios.initial_load import load_process


def killable(update: Update) -> "subprocess.Popen[bytes]":
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        [sys.executable, "-m", load_process.__name__],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{root / 'plugins'}:{root}"},
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(update))
    process.stdin.close()
    return process


def begun_or_ended(pair: Rig, process: "subprocess.Popen[bytes]") -> bool:
    return process.poll() is not None or any(block.state is BlockState.BEGUN for block in pair.blocks())
