"""What strikes the parts of a running replication: for the demo, the fault runs and the benchmarks.

striker.py   one strike after the other: tried until it hits, mended when its time is over
freezer.py   servers and programs that are stopped for a while, with all their processes
proxy.py     between a client and a server: counts bytes, cuts, stalls, slows, waits for a COMMIT
drivers.py   the process of a job that Spark runs
"""
