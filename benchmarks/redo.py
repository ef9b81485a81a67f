"""`redo`: what OpenLogReplicator writes becomes a recorded stream, and redo logs travel from another machine.

`parse`: messages are read and typed; beside Python's own reader of JSON, which types nothing. `threads`: the output of
eight redo threads is merged; beside the same changes of one. `transaction`: one of 5,000,000 rows is merged; beside one
of a hundredth, by the most memory that the process has. `stage`: a log comes over a proxy on the loopback, every block
verified; beside a plain copy of the file.

The first two are rates of one core: changes by the processor time of the process, which does nothing else.
"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import machine
from benchmarks.cpu import CpuWatch
from benchmarks.machine import MemoryWatch
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from devstack.home import REPOSITORY
from devstack.ports import free_port
from sluice.errors import Terminal
from sluice.model.names import Naming, Prefix
from sluice.redo import blocks
from sluice.redo.stager import Archive, ProxyClient, Stager
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.redo.definitions import Definitions
from sluice.vendors.stream.redo.merge import ThreadId, Transaction
from sluice.vendors.stream.redo.merger import Merger
from sluice.vendors.stream.redo.threads import ThreadOutput

CHANGES = 400_000
OF_A_TRANSACTION = 100
THREADS = 8
HUGE = 5_000_000
LOG_BYTES = 512 << 20
GOAL = 150_000
"""Changes that are to be read and typed in a second."""
STAGE_GOAL = 200
"""Megabytes that are to come in a second."""
RESETLOGS = 1_000_000
SCHEMA = json.dumps(
    {
        "owner": "SHOP",
        "table": "ORDERS",
        "obj": 7,
        "columns": [
            {"name": "ID", "type": "number", "precision": -1, "scale": -1, "nullable": False},
            {"name": "CUSTOMER", "type": "varchar2", "length": 100, "nullable": True},
            {"name": "AMOUNT", "type": "number", "precision": 10, "scale": 2, "nullable": True},
            {"name": "AT", "type": "date", "nullable": True},
            {"name": "NOTE", "type": "varchar2", "length": 400, "nullable": True},
        ],
    },
    separators=(",", ":"),
)
CHECKPOINT = {
    "resetlogs": RESETLOGS,
    "incarnations": [{"resetlogs": RESETLOGS, "resetlogs-scn": 1}],
    "sys-user": [{"user": 1, "name": "SHOP"}],
    "sys-obj": [{"owner": 1, "obj": 7, "name": "ORDERS", "type": 2}],
    "sys-col": [{"obj": 7, "int-col": 1, "name": "ID"}],
    "sys-cdef": [{"con": 1, "obj": 7, "type": 2}],
    "sys-ccol": [{"con": 1, "int-col": 1, "obj": 7}],
}
"""As much of a schema checkpoint as a merge looks at."""


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when changes are missing, or a log is not what it was."""
    benches = {"parse": _parse, "threads": _threads, "transaction": _transaction, "stage": _stage}
    figures = []
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        for name in args.figure or tuple(benches):
            place = Path(folder) / name
            place.mkdir()
            figures.append(benches[name](place, args))
            shutil.rmtree(place)
    load = {"load": [round(each, 1) for each in os.getloadavg()]}
    return Report("redo", figures, {**machine.describe(), **load})


def _parse(folder: Path, args: argparse.Namespace) -> Figure:
    changes = max(OF_A_TRANSACTION, int(CHANGES * args.scale))
    output = _write(folder, 1, changes, OF_A_TRANSACTION)

    def ours() -> Run:
        read = ThreadOutput(output, ThreadId(RESETLOGS, 1))
        found = [each for each in read.poll() if isinstance(each, Transaction)]
        typed = Definitions({}, {("SHOP", "ORDERS"): ("ID",)}, Naming())
        with measured(changes) as took:
            # The first one brings the definition as well.
            made = sum(1 for each in found for _ in typed.changes(read.messages(each), "ns", "1")) - 1
        expect(changes, made)
        return took[0]

    def reference() -> Run:
        lines = (output / "1.jsonl").read_bytes().splitlines()
        with measured(changes) as took:
            made = sum(json.loads(line)["payload"][0]["op"] == "c" for line in lines)
        expect(changes, made)
        return took[0]

    runs = both(args, "parse", ours, reference)
    aim = f"the aim is {GOAL:,} a second"
    title = f"{changes:,} changes read and typed"
    return Figure(title, "changes/s of a core", *runs, "json.loads, nothing typed", note=aim)


def _threads(folder: Path, args: argparse.Namespace) -> Figure:
    changes = max(OF_A_TRANSACTION * THREADS, int(CHANGES * args.scale))
    changes -= changes % (OF_A_TRANSACTION * THREADS)
    for threads in (1, THREADS):
        _write(folder / f"{threads}", threads, changes, OF_A_TRANSACTION)

    def merged(threads: int) -> Run:
        stream = folder / "stream"
        merger = Merger(folder / f"{threads}", stream, Prefix("BENCH_"))
        with measured(changes) as took:
            merger.merge_once()
        expect(changes // OF_A_TRANSACTION, merger.merged)
        shutil.rmtree(stream)
        return took[0]

    runs = both(args, "threads", partial(merged, THREADS), partial(merged, 1))
    return Figure(f"{THREADS} threads merged", "changes/s of a core", *runs, "one thread", goal=0.9)


def _transaction(folder: Path, args: argparse.Namespace) -> Figure:
    rows = max(1_000, int(HUGE * args.scale))

    def merged(count: int) -> Run:
        place = folder / "merge"
        _write(place, 1, count, count)
        command = [sys.executable, "-m", "sluice.cli", "redo", "BENCH_", "--threads", str(place), "--once"]
        command += ["--location", str(folder / "stream")]
        began = time.perf_counter()
        process = subprocess.Popen(command, env=_environment(), stdout=subprocess.DEVNULL)
        with MemoryWatch(lambda: {"merge": process.pid}) as memory:
            expect(0, process.wait())
        seconds = time.perf_counter() - began
        files = Files(folder / "stream")
        names = files.names()
        expect(count, files.index(names[-1], names).end.position)
        shutil.rmtree(place)
        shutil.rmtree(folder / "stream")
        return Run(memory.peak / 1e6, seconds, detail={"rows": count, "rows_per_second": count / seconds})

    runs = both(args, "transaction", partial(merged, rows), partial(merged, rows // 100))
    title = f"memory of a merge, one transaction of {rows:,} rows"
    return Figure(title, "MB", *runs, f"one of {rows // 100:,}", less_is_better=True, goal=0.9)


def _stage(folder: Path, args: argparse.Namespace) -> Figure:
    source, target = folder / "source", folder / "target"
    source.mkdir()
    log, token = source / "1_1.arc", folder / "token"
    size = _write_log(log, max(1_000, int(LOG_BYTES * args.scale) // 512))
    token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
    with _proxy(source, token) as (address, pid):

        def ours() -> Run:
            archive = Archive(ProxyClient(address, token.read_text()), [str(source)])
            stager = Stager(archive, target, 1, RESETLOGS)
            began = time.perf_counter()
            with CpuWatch(lambda: {"proxy": pid, "stager": os.getpid()}) as used:
                expect(1, stager.turn())
            seconds = time.perf_counter() - began
            if stager.file(1).read_bytes() != log.read_bytes():
                raise Terminal("the log that came is another one", code="bench-side-failed")
            shutil.rmtree(target)
            return Run(size / 1e6 / seconds, seconds, used.seconds)

        def reference() -> Run:
            began = time.perf_counter()
            with (folder / "copy").open("wb") as copy, log.open("rb") as opened:
                shutil.copyfileobj(opened, copy, 1 << 20)
                os.fsync(copy.fileno())
            seconds = time.perf_counter() - began
            (folder / "copy").unlink()
            return Run(size / 1e6 / seconds, seconds)

        runs = both(args, "stage", ours, reference)
    aim = f"the aim is {STAGE_GOAL} MB/s"
    return Figure(f"a log of {size / 1e6:,.0f} MB over the loopback", "MB/s", *runs, "a copy of the file", note=aim)


def both(
    args: argparse.Namespace, name: str, ours: Callable[[], Run], reference: Callable[[], Run]
) -> tuple[list[Run], list[Run]]:
    sides = {"ours": ours, "reference": reference}
    chosen = {side: measure for side, measure in sides.items() if args.side in ("both", side)}
    runs = alternate(name, chosen, args.rounds, args.warm_up)
    return runs.get("ours", []), runs.get("reference", [])


@contextmanager
def measured(changes: int) -> Iterator[list[Run]]:
    """Filled at the end: so many changes by the processor time of this process."""
    made: list[Run] = []
    began, used = time.perf_counter(), time.process_time()
    yield made
    seconds, used = time.perf_counter() - began, time.process_time() - used
    made.append(Run(changes / used, seconds, {"process": round(used, 3)}))


def expect(wanted: int, found: int) -> None:
    if wanted != found:
        raise Terminal(f"{found} where {wanted} were expected", code="bench-side-failed")


def _write(folder: Path, threads: int, changes: int, of_a_transaction: int) -> Path:
    """The output of so many threads, inserts of a row each; the folder of the first one."""
    for thread in range(1, threads + 1):
        made = folder / f"{RESETLOGS}_{thread}"
        made.mkdir(parents=True)
        (made / "BENCH-chkpt-1.json").write_text(json.dumps(CHECKPOINT))
        with (made / "1.jsonl").open("w") as file:
            for number in range(thread, changes // of_a_transaction + 1, threads):
                file.writelines(_transaction_of(thread, 100 + number, of_a_transaction))
            head = f'{{"scn":{changes + 200},"tm":1772311432000000000,"c_scn":{changes + 200},"c_idx":1'
            file.write(f'{head},"payload":[{{"op":"chkpt","seq":15,"offset":512}}]}}\n')
    return folder / f"{RESETLOGS}_1"


def _transaction_of(thread: int, scn: int, rows: int) -> Iterator[str]:
    head = f'{{"scn":{scn},"tm":1772311432000000000,"c_scn":{scn},"c_idx":'
    xid = f',"xid":"{thread}.{scn}.1","db":"SHOP","payload":['
    yield f'{head}1{xid}{{"op":"begin"}}]}}\n'
    note = "some text of the row " * 9
    for number in range(rows):
        key = scn * 1_000 + number
        yield (
            f'{head}{number + 2}{xid}{{"op":"c","schema":{SCHEMA},"num":{number},"rid":"AAARwWAAYAAAAAOAAA","after":'
            f'{{"ID":{key},"CUSTOMER":"customer {key}","AMOUNT":{key % 10_000}.25,"AT":1749983400000000000,'
            f'"NOTE":"{note}"}}}}]}}\n'
        )
    yield f'{head}{rows + 2}{xid}{{"op":"commit"}}]}}\n'


def _write_log(file: Path, count: int) -> int:
    """A log of so many blocks, none of them empty; its bytes."""
    content = secrets.token_bytes(480)
    header = blocks.LogHeader(1, 1, RESETLOGS, 8_000, 9_000, count)
    with file.open("wb") as opened:
        opened.write(blocks.first_block(512, count - 1) + blocks.header_block(header))
        opened.writelines(blocks.block(number, 1, content) for number in range(2, count))
    return file.stat().st_size


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugins")}


@contextmanager
def _proxy(root: Path, token: Path) -> Iterator[tuple[str, int]]:
    """Its address and its process."""
    port = free_port()
    command = [sys.executable, "-m", "sluice.cli", "redo-proxy", "--root", str(root), "--token-file", str(token)]
    process = subprocess.Popen([*command, "--port", str(port)], env=_environment(), stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # It says that it serves.
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait(30)
