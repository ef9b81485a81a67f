"""The production shape, brought up once for all tests of this folder, and removed at their end."""

import socket
from collections.abc import Iterator

import pytest

from devstack.account import new_folder
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
    made = Shape(new_folder("sluice-test-production-"), f"sluice-test-{port}", port)
    try:
        made.bring_up()
        yield made
    finally:
        made.remove()
