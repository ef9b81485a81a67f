"""`./sluice demo`: a replicating pair under live traffic, and the proof that the slave ends identical.

A turn of it, as `run.py` tells it: the servers come up, the master is made and kept busy, the DAG `initial_update` brings
the slave to NORMAL while the traffic goes on, the traffic stops, and every table is compared row for row.
"""
