"""From facts of a server to its issues, as sentences and statements."""

from dataclasses import replace

import pytest

from sluice.model.issue import Issue, Severity, errors, script
from sluice.preflight.checks import NotReady, require_ready
from sluice.vendors.postgres.issues import of_account, of_schemas, silence_issue
from sluice.vendors.postgres.privileges import Account, Schema

FIT = Account(
    role='"Sluice"',
    database="shop",
    superuser=False,
    powers=(),
    may_connect=True,
    may_make_temporary=True,
    may_create=True,
    may_use_plpgsql=True,
    sees_others=False,
    standby=False,
    encoding="UTF8",
    version=180000,
    room=50,
    room_limit="max_connections of the server",
    missing_functions=(),
    ahead=0.1,
    uncertain=0.05,
)


@pytest.mark.parametrize(
    ("change", "what", "severity", "said"),
    [
        ({"version": 130012}, "PostgreSQL 14 or later", Severity.ERROR, "Upgrade the server."),
        ({"standby": True}, "a server that can be written to", Severity.ERROR, "or promote this one."),
        ({"may_connect": False}, "CONNECT on the database shop", Severity.ERROR, 'DATABASE shop TO "Sluice";'),
        ({"may_use_plpgsql": None}, "USAGE on the language plpgsql", Severity.ERROR, "CREATE EXTENSION plpgsql;"),
        ({"room": 9}, "10 free connections", Severity.WARNING, "9 are free by max_connections"),
        ({"room": -3}, "10 free connections", Severity.WARNING, "0 are free by max_connections"),
        ({"ahead": -90.0}, "the right time", Severity.WARNING, "90 s behind this machine's"),
        ({"ahead": 3.0}, "the right time", Severity.WARNING, "3 s ahead of this machine's"),
        ({"superuser": True}, "an account that is no superuser", Severity.ERROR, "or say allow_superuser: true"),
        ({"powers": ("dba",)}, "an account that is no superuser", Severity.ERROR, '"Sluice" may become dba: SQL'),
    ],
)
def test_each_wrong_fact_is_one_lack(change: dict[str, object], what: str, severity: Severity, said: str) -> None:
    (issue,) = of_account(replace(FIT, **change), 4, allow_superuser=False)  # type: ignore[arg-type]
    assert (issue.what, issue.severity) == (what, severity)
    assert said in str(issue)


def test_a_sufficient_account_lacks_nothing() -> None:
    assert not list(of_account(FIT, 4, allow_superuser=False))
    # A slow answer says little about the clock.
    assert not list(of_account(replace(FIT, ahead=20.0, uncertain=30.0), 4, allow_superuser=False))


@pytest.mark.parametrize("change", [{"superuser": True}, {"powers": ("postgres",)}])
def test_a_superuser_that_the_configuration_allows_is_noted(change: dict[str, object]) -> None:
    (issue,) = of_account(replace(FIT, **change), 4, allow_superuser=True)  # type: ignore[arg-type]
    assert issue.severity is Severity.NOTE
    assert "reaches all databases of the server" in str(issue) and "docs/privileges.md" in str(issue)


def test_the_privilege_to_disable_triggers_depends_on_the_release() -> None:
    granted, old = silence_issue(FIT, []), silence_issue(replace(FIT, version=140019), [])
    assert granted.statement == 'GRANT SET ON PARAMETER session_replication_role TO "Sluice"'
    assert old.statement == 'ALTER ROLE "Sluice" IN DATABASE shop SET session_replication_role = replica'
    assert (granted.severity, old.severity) == (Severity.WARNING, Severity.WARNING)
    assert silence_issue(FIT, ["public.a.key → public.b"]).severity is Severity.ERROR


def test_privileges_on_one_schema_are_one_statement() -> None:
    schemas = [Schema("a b", '"a b"', "owner", False, False), Schema("gone", "gone", None, False, False)]
    needs = {"a b": {"USAGE": "it is named", "CREATE": "tables are made"}, "gone": {"USAGE": "it is named"}}
    (issue,) = of_schemas(FIT, schemas, needs)
    assert issue.statement == 'GRANT USAGE, CREATE ON SCHEMA "a b" TO "Sluice"'
    assert issue.why == "it is named; tables are made"
    assert issue.by == "the owner owner or an administrator"


def test_errors_are_raised_at_once_and_all_else_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    issues = [
        Issue("master", "A", "why a", "GRANT A", server="here"),
        Issue("slave dr1", "B", "why b", None, remedy="Do b."),
        Issue("master", "C", "why c", "GRANT C", Severity.WARNING),
    ]
    with pytest.raises(NotReady) as caught:
        require_ready("SHOP_", issues)
    assert str(caught.value) == (
        "SHOP_: 2 things are lacking, and nothing was changed:\n"
        "- master, here: A: why a. Run there, as an administrator:\n    GRANT A;\n"
        "- slave dr1: B: why b. Do b.\n"
        "Then start again."
    )
    assert "SHOP_: master: C: why c. Run there, as an administrator:\n    GRANT C;" in caplog.text
    assert script(issues) == "GRANT A;\nGRANT C;\n"
    assert errors(issue.softened() for issue in issues) == []
    require_ready("SHOP_", (issue.softened() for issue in issues))
