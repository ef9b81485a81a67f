"""The production shape, brought up once for all tests of this folder, and removed at their end."""

import shutil
import socket
from collections.abc import Iterator

import pytest

from devstack.account import new_folder
from tests.scenarios.production.compose import podman
from tests.scenarios.production.shape import Shape, build_stand_ins, lacking


@pytest.fixture(scope="session")
def shape() -> Iterator[Shape]:
    """Built, with its secrets, and up."""
    if reason := lacking():
        pytest.skip(f"the production shape needs podman as root: {reason}")
    build_stand_ins()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = new_folder("sluice-test-production-")
    made = Shape(folder, f"sluice-test-{port}", port)
    try:
        made.compose.build()
        made.compose.run("secrets")
        made.compose.up()
        yield made
    finally:
        made.compose.down(volumes=True)
        podman("rmi", "--force", f"{made.compose.name}-image:latest", check=False)
        shutil.rmtree(folder, ignore_errors=True)
