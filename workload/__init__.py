"""Traffic on a master: its tables, the operations on them, and a writer that chooses among those at random.

The demo, the fault runs and the benchmarks use it. `workload.faults` kills and disturbs what they run.
"""
