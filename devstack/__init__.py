"""The servers that `./sluice` runs on this machine, and the commands that run them.

Nothing in here is needed where the servers already exist: there only `dags/`, `plugins/` and `spark_jobs/` are
installed.
"""
