"""What runs inside a Connect server: makes its Spark session, and waits for its end. `spark-submit` starts it.

Spark's own program for this lets every client have Python workers of its own, which then all import the same. Here
clients that bring no files along share them.
"""

import os
import time

from pyspark.sql import SparkSession

if __name__ == "__main__":
    server = os.getppid()
    SparkSession.builder.getOrCreate()
    while os.getppid() == server:
        time.sleep(1.0)
