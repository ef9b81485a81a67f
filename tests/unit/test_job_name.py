"""The name of a job in the requests that start it, read by a server of the same protocol."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from pyspark.sql.connect.proto import ExecutePlanRequest, ReattachExecuteRequest, SparkConnectServiceStub
from pyspark.sql.connect.proto.base_pb2_grpc import (
    SparkConnectServiceServicer,
    add_SparkConnectServiceServicer_to_server,
)

from spark_jobs.job_name import JobName, NamingChannel


class Recording(SparkConnectServiceServicer):  # type: ignore[misc]
    """Records the user's name of each request, and answers nothing."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def ExecutePlan(self, request: Any, context: Any) -> Iterator[Any]:
        self.names.append(request.user_context.user_name)
        return iter(())

    ReattachExecute = ExecutePlan


def test_only_requests_of_a_thread_have_the_name_that_it_set() -> None:
    recording, named = Recording(), JobName()
    server = grpc.server(ThreadPoolExecutor(1))
    add_SparkConnectServiceServicer_to_server(recording, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as plain, ThreadPoolExecutor(1) as other:
            stub = SparkConnectServiceStub(NamingChannel(plain, named))

            def execute() -> None:
                list(stub.ExecutePlan(ExecutePlanRequest()))

            with named("load public.orders 12/40"):
                execute()
                other.submit(execute).result()
                list(stub.ReattachExecute(ReattachExecuteRequest()))
            execute()
    finally:
        server.stop(None)
    assert recording.names == ["load public.orders 12/40", "", "", ""]


def test_a_request_over_a_channel_that_was_closed_is_refused() -> None:
    channel = grpc.insecure_channel("127.0.0.1:9")
    stub = SparkConnectServiceStub(NamingChannel(channel, JobName()))
    channel.close()
    for _ in range(100):
        with pytest.raises(ValueError, match="Channel closed"):
            list(stub.ExecutePlan(ExecutePlanRequest()))
