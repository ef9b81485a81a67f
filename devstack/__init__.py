"""The servers that `./sluice` runs on this machine, and the commands that run them.

A site with servers of its own does not need this package: it installs `dags/`, `plugins/` and `spark_jobs/` alone.
"""
