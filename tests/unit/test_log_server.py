"""Airflow's requests for logs are answered, and no others."""

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import HTTPServer
from typing import Any

import pytest
from airflow.api_fastapi.auth.tokens import JWTGenerator

from devstack import log_server
from devstack.ports import HOST

SECRET = "the secret of Airflow's API"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The server's port."""
    monkeypatch.setenv(log_server.SECRET, SECRET)
    with HTTPServer((HOST, 0), log_server.EmptyLog) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def signed(**changes: Any) -> str:
    """A token as Airflow signs it when a user opens the log of a task, with `changes`."""
    settings = {"secret_key": SECRET, "algorithm": "HS512", "private_key": None, "issuer": None, "valid_for": 30}
    generator = JWTGenerator(**{**settings, "audience": log_server.AUDIENCE, **changes})
    return str(generator.generate({"filename": "dag_id=cdc_apply/attempt=1.log"}))


def status(port: int, authorization: str | None) -> int:
    request = urllib.request.Request(f"http://{HOST}:{port}/log/dag_id=cdc_apply/attempt=1.log")
    if authorization is not None:
        request.add_header("Authorization", authorization)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            assert answer.read() == b""
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_a_question_that_airflow_signed_is_answered(port: int) -> None:
    assert status(port, signed()) == 200


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="none"),
        pytest.param("eyJhbGciOiJub25lIn0.eyJmaWxlbmFtZSI6IngifQ.", id="not signed"),
        pytest.param(signed(secret_key="another secret"), id="another secret"),
        pytest.param(signed(audience="urn:airflow.apache.org:task"), id="another purpose"),
        pytest.param(signed(audience=""), id="no purpose"),
        pytest.param(signed(valid_for=-60), id="expired"),
        pytest.param(signed(algorithm="HS256"), id="another algorithm"),
    ],
)
def test_every_other_question_is_refused(port: int, authorization: str | None) -> None:
    assert status(port, authorization) == 403
