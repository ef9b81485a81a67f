"""Random faults under traffic with a known history, and the proof afterwards that nothing was lost or applied twice.

plan.py      a seed's decisions: options of the pair, strikes, moments
writer.py    transactions on the master (operations.py: what they do), each with its line in the log
pair.py      two new databases and their configuration; what differs from vendor to vendor
applies.py   the apply as a real process (driver.py), started again as Airflow would
hand.py      carries the strikes out, and fixes afterwards (workload/faults: how)
housekeeper.py   purges ITEMS all the while
reader.py    looks at the slave all the while
audit.py     the slave's own write-ahead log, decoded: what was really committed, in order
binlog.py    the same of a MariaDB, from its binary log
verdict.py   all of it against the history
run.py       one seed from beginning to end; __main__.py: many of them
"""
