"""The commands read connections from Airflow's variables, without Airflow's code."""

import pytest

from sluice.cli.connections import ConnectionNotGiven, Connections, from_variable
from sluice.model.connection import ConnectionInfo
from tests.errors import raises_code

WANTED = ConnectionInfo("postgres", "db.example", 5433, "a shop", "re pl", "p@ss/word:", {"sslmode": "require"}, "shop")


@pytest.mark.parametrize(
    "text",
    [
        "postgres://re%20pl:p%40ss%2Fword%3A@db.example:5433/a%20shop?sslmode=require",
        "postgresql://re%20pl:p%40ss%2Fword%3A@db.example:5433/a%20shop?sslmode=require&of_a_hook=1",
        "postgres://re%20pl:p%40ss%2Fword%3A@db.example:5433/a%20shop?__extra__=%7B%22sslmode%22%3A+%22require%22%7D",
        '{"conn_type": "postgres", "host": "db.example", "port": "5433", "schema": "a shop", "login": "re pl", '
        '"password": "p@ss/word:", "extra": {"sslmode": "require"}}',
        '{"conn_type": "postgres", "host": "db.example", "port": 5433, "schema": "a shop", "login": "re pl", '
        '"password": "p@ss/word:", "extra": "{\\"sslmode\\": \\"require\\"}"}',
    ],
)
def test_a_variable_is_read_as_airflow_reads_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", text)
    assert Connections(None)("shop", "postgres") == WANTED


@pytest.mark.parametrize("text", ["{not json", "postgres://host:secret/name", "[1]"])
def test_an_invalid_connection_is_refused_without_quoting_it(text: str) -> None:
    with raises_code("connection-unusable") as raised:
        from_variable(text, "shop").info("shop", "postgres")
    assert "secret" not in str(raised.value)


def test_a_missing_connection_names_the_variable_to_set() -> None:
    with pytest.raises(ConnectionNotGiven, match="--airflow URL, or set AIRFLOW_CONN_SHOP"):
        Connections(None)("shop", "postgres")
