"""A pair of databases, and a real S3 server of the test run's own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest

from sluice.model.location import Location, S3Access

BUCKET = "carried"


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Access]:
    """A running S3 server with an empty bucket."""
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        said: Queue[str] = Queue()
        assert server.stdout is not None
        threading.Thread(target=lambda: [said.put(line) for line in server.stdout or ()], daemon=True).start()
        endpoint = None
        while endpoint is None:
            try:
                found = re.search(r"http://127\.0\.0\.1:\d+", said.get(timeout=60))
            except Empty:
                raise AssertionError("the S3 server did not start") from None
            endpoint = found.group(0) if found else None
        access = S3Access("key", "a secret", "", endpoint, "us-east-1")
        import boto3

        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id="key", aws_secret_access_key="a secret",
            region_name="us-east-1",
        )  # fmt: skip
        client.create_bucket(Bucket=BUCKET)
        yield access
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(params=["directory", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Location, S3Access]:
    """A location in a directory, and one in S3."""
    if request.param == "directory":
        (tmp_path / "out").mkdir()
        return Location.parse(str(tmp_path / "out")), S3Access()
    access = request.getfixturevalue("s3")
    place = re.sub(r"\W", "-", request.node.name)
    return Location.parse(f"s3://{BUCKET}/{place}"), access
