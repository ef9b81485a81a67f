"""The commands that operate slaves, against a real Airflow that runs the DAGs they start."""

import pytest

from devstack import cli
from devstack.stack import Stack
from sluice.cli import operate
from sluice.errors import Terminal


@pytest.mark.long
def test_a_person_holds_a_slave_back_from_a_terminal_and_everybody_sees_why(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    api = stack.airflow.api()
    api.await_dags(["gate"])

    def gate(*given: str) -> str:
        args = cli.parser().parse_args(["gate", "DEMO_", "dr1", *given])
        assert operate.run_gate(args, lambda _: api) == 0
        return capsys.readouterr().out

    assert gate() == "open\n"
    assert "the gate is closed: admin (admin," in gate("close", "--why", "its disk is replaced")
    (slave,) = [one for master in api.page("overview.json")["masters"] for one in master["slaves"]]
    assert any("its disk is replaced" in message["text"] for message in slave["messages"])
    assert "its disk is replaced" in gate("show")
    assert "the gate is open" in gate("open")
    with pytest.raises(Terminal, match="Say why"):
        gate("close")
