"""Traffic on a master: its tables, what transactions do to them, and the writer that does it by chance.

The demo, the fault runs and the benchmarks use it. `workload.faults` strikes what they run.
"""
