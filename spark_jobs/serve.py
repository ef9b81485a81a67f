"""What runs inside a Connect server: makes its Spark session, and waits for its end. `spark-submit` starts it.

Spark's own program for this lets every client have Python workers of its own, which then all import the same. Here
clients that bring no files along share them. It speaks to the JVM without pyspark, which would take 20 MB, and while
nothing runs it lets the JVM give back what the last jobs needed.
"""

import os
import time

from py4j.java_gateway import GatewayParameters, JavaGateway

LOOK_SECONDS = 20
"""Between two looks whether the JVM holds more than it needs."""
GROWN = 1.2
"""Times what it had after the last collection."""

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
