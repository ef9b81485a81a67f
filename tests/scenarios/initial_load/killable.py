"""Loads and imports in processes that can be killed."""

import os
import pickle
import subprocess
import sys
from functools import partial

from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.with_parent import with_parent
from tests.library import ROOT
from tests.rig.rig import Rig
from tests.scenarios.initial_load import load_process


def killable(update: Update) -> "subprocess.Popen[bytes]":
    """Runs a load job in such a process."""
    return process_of(partial(load_process.load, update))


def process_of(function: "partial[object]") -> "subprocess.Popen[bytes]":
    """Runs a function in such a process."""
    process = subprocess.Popen(
        with_parent([sys.executable, "-m", load_process.__name__]),
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'plugins'}:{ROOT}"},
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(function))
    process.stdin.close()
    return process


def begun_or_ended(pair: Rig, process: "subprocess.Popen[bytes]") -> bool:
    return process.poll() is not None or any(block.state is BlockState.BEGUN for block in pair.blocks())
