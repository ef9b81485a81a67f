"""Options of verification and of notifiers in a replication file."""

from pathlib import Path

import pytest

from sluice import config
from sluice.configuration.options import NotifierConfig, VerifyOptions

YAML = """\
prefix: DEMO_
master: {conn_id: m}
slaves: {}
tables: {public.*: {}}
"""
PROPERTIES = """\
replication.prefix=TEST
sluice.master.conn_id=m
sluice.slave.dr1.conn_id=s
table.S.*=
"""
SMTP = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"


def test_missing_options_have_defaults(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(YAML)
    found = config.load("DEMO_")
    assert found.verify == VerifyOptions() and found.notify == ()


def test_a_list_may_be_written_as_a_list_or_with_commas(folder: Path) -> None:
    (folder / "A.yaml").write_text(YAML + "verify: {tables: [public.*, hr.x]}\nfeeds: [lake, search]\n")
    (folder / "B.yaml").write_text(
        YAML.replace("DEMO", "B") + "verify: {tables: 'public.*, hr.x'}\nfeeds: lake, search\n"
    )
    a, b = config.load("DEMO_"), config.load("B_")
    assert a.verify == b.verify == VerifyOptions(tables=("public.*", "hr.x"))
    assert a.feeds == b.feeds == ("lake", "search")


def test_without_verification_there_is_no_reminder(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(YAML + "verify: {schedule: never}\n")
    assert config.load("DEMO_").verify.max_age_days == 0


def test_every_option_is_read(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(
        YAML + 'verify: {schedule: weekly, at: "23:05", zone: Asia/Tokyo, action: repair, tables: "public.*, hr.x", '
        'accept: shop_checks:harmless, mask: "*.iban", '
        "max_repair_rows: 5, sample: 100, daily_sample: 7, parallel: 3, max_age_days: 0, keep_reports_days: 7, "
        "spark_above: 0}\n"
    )
    assert config.load("DEMO_").verify == VerifyOptions(
        "weekly",
        "23:05",
        "Asia/Tokyo",
        "repair",
        ("public.*", "hr.x"),
        "shop_checks:harmless",
        ("*.iban",),
        5,
        100,
        7,
        3,
        0,
        7,
        0,
    )


def test_notifiers_have_texts_lists_and_mappings_as_arguments(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(
        YAML + f"notify:\n  {SMTP}: {{to: [a@x, b@x], from_email: s@x, custom_headers: {{X-Y: 010}}}}\n  my.Pager:\n"
    )
    assert config.load("DEMO_").notify == (
        NotifierConfig(SMTP, {"to": ["a@x", "b@x"], "from_email": "s@x", "custom_headers": {"X-Y": "010"}}),
        NotifierConfig("my.Pager", {}),
    )


def test_properties_name_the_class_and_then_the_argument(folder: Path) -> None:
    (folder / "TEST.properties").write_text(
        PROPERTIES + f"sluice.notify.{SMTP}.to=a@x\nsluice.notify.{SMTP}.from_email=s@x\nsluice.verify.max_age_days=3\n"
    )
    found = config.load("TEST")
    assert found.notify == (NotifierConfig(SMTP, {"to": "a@x", "from_email": "s@x"}),)
    assert found.verify.max_age_days == 3


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("notify: anna", "5: notify: is 'anna'; write a notifier's class"),
        ("notify: {Pager: {}}", "5: notify.Pager: 'Pager' is no class of a module; write a notifier's class"),
        ("notify: {my.Pager: anna}", "5: notify.my.Pager: is 'anna'; write a notifier's class"),
        ("verify: {max_age_days: soon}", "5: verify.max_age_days: 'soon' is not a whole number"),
        ("verify: {keep_reports_days: -1}", "5: verify.keep_reports_days: -1 is out of range"),
    ],
)
def test_mistakes_are_named(folder: Path, text: str, mistake: str) -> None:
    (folder / "DEMO.yaml").write_text(YAML + text + "\n")
    (found,) = config.survey().mistakes
    assert mistake in str(found)


def test_an_argument_without_a_class_is_a_mistake(folder: Path) -> None:
    (folder / "TEST.properties").write_text(PROPERTIES + "sluice.notify.to=a@x\n")
    (found,) = config.survey().mistakes
    assert "sluice.notify.to: is not complete; write sluice.notify.<module.Class>.<key>" in str(found)
