"""The CPU of a test is that of all processes that it starts."""

import os
import subprocess
import sys

from tests.cpu import of_family

SPENT = "import time\nwhile time.process_time() < 0.5: pass"


def test_what_ended_children_and_running_grandchildren_took_counts() -> None:
    before = of_family(os.getpid())
    subprocess.run([sys.executable, "-S", "-c", SPENT], check=True)
    assert of_family(os.getpid()) - before > 0.4
    waits = "import subprocess, sys\nsubprocess.run([sys.executable, '-S', '-c', sys.argv[1]])"
    tells = f"{SPENT}\nprint('spent', flush=True)\ninput()"
    command = [sys.executable, "-S", "-c", waits, tells]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "spent\n"
        assert of_family(child.pid) > 0.4
        child.communicate("\n")
    assert of_family(child.pid) == 0
