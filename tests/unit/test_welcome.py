"""The last service of `docker compose up`, whose API may be slow or start again."""

import importlib.util
import urllib.error
from email.message import Message
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[2] / "include" / "docker" / "welcome.py"
SILENT = urllib.error.URLError("Connection refused")


def refusal(code: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://api-server:8080", code, "", Message(), None)


@pytest.fixture
def welcome(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("welcome", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    return module


def answers(welcome: ModuleType, monkeypatch: pytest.MonkeyPatch, *said: Any) -> list[Any]:
    """Lets the API answer so, one after the other; returns what it is asked."""
    asked: list[Any] = []
    left = list(said)

    def ask(path: str, body: Any, token: str) -> Any:
        asked.append(body)
        if isinstance(now := left.pop(0), Exception):
            raise now
        return now

    monkeypatch.setattr(welcome, "_ask", ask)
    return asked


def test_an_api_that_starts_again_is_asked_again(welcome: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(welcome, monkeypatch, SILENT, TimeoutError(), {"masters": []})
    assert welcome.state("token") == ""


def test_a_state_that_the_monitor_has_not_asked_for_yet_is_awaited(
    welcome: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [
        {"masters": [{"prefix": "SHOP_", "slaves": [{"slave": "dr1", "state": one}]}]}
        for one in ("UNKNOWN", "UNKNOWN", "UNCONFIGURED")
    ]
    answers(welcome, monkeypatch, *shown)
    assert welcome.state("token") == "UNCONFIGURED"


def test_a_refusal_is_no_silence(welcome: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(welcome, monkeypatch, refusal(500))
    with pytest.raises(urllib.error.HTTPError):
        welcome.state("token")


def test_silence_for_ever_ends(welcome: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(welcome, monkeypatch, *[SILENT] * 100)
    with pytest.raises(OSError, match="refused"):
        welcome.state("token")
    assert len(asked) == welcome.RETRIES + 1


def test_a_load_whose_start_was_not_answered_is_started_once(
    welcome: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = [{"state": "running"}, SILENT, {"state": "success"}]
    asked = answers(welcome, monkeypatch, refusal(404), SILENT, refusal(409), *ends)
    assert welcome.load("token")
    assert len({body["dag_run_id"] for body in asked if body}) == 1
