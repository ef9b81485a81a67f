"""Faults for the parts of a running replication: for the demo, the fault runs and the benchmarks.

striker.py   one fault after another: tried until it hits, repaired when its time is over

freezer.py   stops servers and programs for a while, with all their processes

proxy.py     between a client and a server: counts bytes, cuts, stalls, slows, waits for a COMMIT

drivers.py   the process of a job that Spark runs
"""
