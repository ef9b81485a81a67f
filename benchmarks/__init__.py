"""`./sluice bench NAME`: what Sluice costs and what it reaches, each beside a reference, in one run on one machine.

`arguments.py` lists the benches; each has a file of its name with `run(options) -> Report`. The nouns they share:
`servers.py` (the databases), `ours.py` and `native.py` (the two sides of a comparison), `workload.py` (what happens
on the master), `rounds.py` (the alternation), `progress.py` (what is done now), `cpu.py` and `memory.py` (what it
costs), `report.py` (what is said).
"""

import argparse
import sys


def run(args: argparse.Namespace) -> int:
    """The subcommand; `args` as `arguments.add_arguments` defines them. Returns the exit status."""
    import importlib

    from benchmarks import progress
    from benchmarks.report import show

    bench = importlib.import_module(f"benchmarks.{args.name}")
    with progress.of(args.name):
        report = bench.run(args)
    if not report.figures:
        print(f"sluice bench: {args.name} has no figure {' or '.join(args.figure)}: see its file.", file=sys.stderr)
        return 2
    show(report, args)
    return 0
