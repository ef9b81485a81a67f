"""The program inside a Connect server: creates its Spark session, and waits for its end. `spark-submit` starts it.

Spark's own program gives each client Python workers of its own, which all import the same. Here clients without files
share them. It calls the JVM without pyspark, which would use 20 MB, and while nothing runs it lets the JVM return
memory of the last jobs.
"""

import os
import time

from py4j.java_gateway import GatewayParameters, JavaGateway

LOOK_SECONDS = 20
"""Seconds between two checks whether the JVM has more memory than it needs."""
GROWN = 1.2
"""The factor, relative to its memory after the last collection."""

if __name__ == "__main__":
    server = os.getppid()
    port, secret = int(os.environ["PYSPARK_GATEWAY_PORT"]), os.environ["PYSPARK_GATEWAY_SECRET"]
    jvm = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret)).jvm
    context = jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate().sparkContext()
    runtime, kept = jvm.java.lang.Runtime.getRuntime(), 0
    looked = time.monotonic()
    while os.getppid() == server:
        time.sleep(1.0)
        if time.monotonic() < looked + LOOK_SECONDS:
            continue
        looked = time.monotonic()
        if runtime.totalMemory() > GROWN * kept and not context.statusTracker().getActiveJobIds():
            runtime.gc()
            kept = runtime.totalMemory()
