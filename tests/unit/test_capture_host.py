"""OpenLogReplicator proves to nobody who it is, and asks nobody: other users of its machine are noticed."""

import os
import pwd
import socket
import threading
from pathlib import Path

import pytest

from sluice import listeners
from sluice.preflight import checks
from sluice.vendors.stream.redo.receiver import Receiver
from tests.errors import raises_code


def account(name: str, uid: int, shell: str) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", "/", shell))


def test_people_who_can_log_in_to_the_capture_host_are_named() -> None:
    machine = [
        account("root", 0, "/bin/bash"), account("oracle", 54, "/bin/bash"), account("sluice", 1001, "/bin/bash"),
        account("nobody", 65534, "/usr/sbin/nologin"), account("backup", 1500, "/usr/sbin/nologin"),
    ]  # fmt: skip
    assert not list(checks.of_capture_host(machine, 1001))
    (issue,) = checks.of_capture_host([*machine, account("anna", 1002, "/bin/zsh")], 1001)
    assert "anna" in issue.what and "oracle" not in issue.what and "capture_redo" in issue.remedy


def test_nothing_is_asked_of_a_process_of_another_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listeners.stranger(port) is None, "our own"
        own = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
        assert listeners.stranger(port) == own
        receiver = Receiver(("127.0.0.1", port), "SHOP", tmp_path)
        with raises_code("another-user", match=f":{port} belongs to the user with the uid {own}"):
            receiver.receive(threading.Event())
        peer, _ = server.accept()
        with peer:
            assert peer.recv(100) == b"", "it ended without a request"
