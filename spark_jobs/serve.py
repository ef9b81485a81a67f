"""The program inside a Connect server: creates its Spark session, and waits for its end. `spark-submit` starts it.

Spark's own program gives each client Python its own workers, which all import the same. Here clients without files
share them. It calls the JVM without pyspark, which would use 20 MB.
"""

import os
import time

from py4j.java_gateway import GatewayParameters, JavaGateway

if __name__ == "__main__":
    server = os.getppid()
    port, secret = int(os.environ["PYSPARK_GATEWAY_PORT"]), os.environ["PYSPARK_GATEWAY_SECRET"]
    jvm = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret)).jvm
    jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate()
    while os.getppid() == server:
        time.sleep(1.0)
