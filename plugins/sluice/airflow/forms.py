"""The DAGs' settings, documentation and trigger forms in Airflow.

The drop-downs show the configuration as of the parsing of the DAG file. A file with mistakes is missing in them; the
documentation of every DAG and Airflow's import errors (`dags/configuration.py`) name its mistakes.

Descriptions hold no `code`: the form draws its box over the line above. The default of an optional text is None: with
an empty text the form refuses to start the run.
"""

import inspect
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from airflow.sdk import DAG, Param

from sluice import config
from sluice.airflow.daily_timetable import DailyTime, DailyTimetable
from sluice.configuration.mistakes import ConfigError, Mistake
from sluice.configuration.model import Replication
from sluice.operate.actions import ACTIONS, SETTLEMENTS, Field, Kind

TAGS = ["sluice"]
FIRST, BY_A_PERSON, SCHEDULED, LAST = 1000, 100, 10, 1
"""Priorities of tasks: of applies, of what a person starts, of `resync`, of `housekeeping`."""


def survey() -> tuple[tuple[Replication, ...], tuple[Mistake, ...]]:
    """Replications and mistakes of the configuration; never raises because of a file's content."""
    try:
        current = config.survey()
    except ConfigError as error:
        return (), error.mistakes
    return current.replications, current.mistakes


def lifecycle_dag(dag_id: str, doc: str | None, *fields: str, priority: int = BY_A_PERSON, **options: object) -> DAG:
    """A DAG of Sluice, whose form has `fields`.

    `fields` are names, see `_field`; `options` go to `DAG`.
    `priority`: of its tasks in Airflow's queue, regardless of what follows them: applies come first, housekeeping of
    many replications last.
    """
    replications, mistakes = survey()
    schedule = options.pop("schedule", None)
    settings: dict[str, Any] = {
        "catchup": False,
        "is_paused_upon_creation": False,
        "max_active_runs": 64,
        "tags": TAGS,
        "default_args": {"priority_weight": priority, "weight_rule": "absolute"},
        "params": {name: _field(dag_id, name)(replications) for name in fields},
        "doc_md": documentation(doc or "", mistakes),
        "render_template_as_native_obj": False,
        **options,
    }
    return DAG(dag_id, schedule=schedule, description=_headline(doc or ""), **settings)


def documentation(doc: str, mistakes: Iterable[Mistake]) -> str:
    """Markdown of a DAG: what it does, then the mistakes of the configuration."""
    text = inspect.cleandoc(doc)
    paragraphs = list(mistakes)
    if not paragraphs:
        return text
    lines = "\n".join(f"- `{_inline(str(mistake))}`" for mistake in paragraphs)
    return f"{text}\n\n## The configuration has mistakes\n\nReplications in these files cannot be used:\n\n{lines}\n"


def prefix_field(replications: Iterable[Replication]) -> Param:
    shown = {str(one.prefix): f"{one.prefix} ({one.master.vendor}, {one.source.name})" for one in replications}
    return _required(
        shown,
        "Replication",
        "The **prefix** of the replication, as its configuration file names it. Files are read from "
        + " and ".join(str(folder) for folder in config.folders())
        + ".",
        nothing="No replication is configured: add a file to that folder.",
    )


def slave_field(replications: Iterable[Replication]) -> Param:
    """The slaves of all replications: a field of a form cannot depend on another one."""
    owners: dict[str, list[str]] = {}
    for one in replications:
        for name in one.slaves:
            owners.setdefault(name, []).append(str(one.prefix))
    shown = {name: f"{name} (of {', '.join(prefixes)})" for name, prefixes in sorted(owners.items())}
    return _required(
        shown,
        "Slave",
        "The **slave**, one of the chosen replication's. The first task checks the pair.",
        nothing="No slave is configured: add one under **slaves** in the file of its replication.",
    )


def slaves_field(replications: Iterable[Replication]) -> Param:
    """One slave or several. A person may type another list than those that are offered."""
    configured = list(replications)
    names = sorted({name for one in configured for name in one.slaves})
    lists = sorted({",".join(one.slaves) for one in configured if len(one.slaves) > 1})
    single: dict[str, Any] = {} if len(names) != 1 else {"default": names[0]}
    one = "|".join(map(re.escape, names))
    listed: dict[str, Any] = {"pattern": rf"^\s*({one})(\s*,\s*({one}))*\s*$"} if names else {}
    return Param(
        **single,
        type="string",
        minLength=1,
        **listed,
        examples=[*names, *lists],
        title="Slave",
        description_md="The **slave**, one of the chosen replication's; or several with commas between them, for which "
        "the master is read once. The first task checks them.",
    )


def location_field(replications: Iterable[Replication]) -> Param:
    return _text(
        "Location of the files",
        "For the transfer by **files**: an existing directory of the machine that runs Airflow and "
        "Spark, e.g. /mnt/disk, or s3://bucket/prefix; one that **initial.locations** of the configuration allows, or "
        "below it. A folder is made in it whose name is a unique timestamp.",
        examples=sorted({text for one in replications for text in one.locations}),
    )


def verification_times() -> DailyTimetable:
    """When `resync` runs: at the times of all replications."""
    replications, _ = survey()
    return DailyTimetable(DailyTime.of(one.verify) for one in replications if one.comparable)


def _required(shown: dict[str, str], title: str, description_md: str, *, nothing: str) -> Param:
    """A drop-down. A single choice is preselected. `nothing`: added to the description if there is no choice."""
    if not shown:
        # No enum can be empty; the first task explains what is missing.
        return Param(type="string", minLength=1, title=title, description_md=f"{description_md}\n\n{nothing}")
    options: dict[str, Any] = {"type": "string", "enum": list(shown), "values_display": shown}
    if len(shown) == 1:
        options["default"] = next(iter(shown))
    return Param(**options, title=title, description_md=description_md)


def _optional(shown: dict[str, str], title: str, description_md: str, *, none: str) -> Param:
    """A drop-down without a default; `none`: what that means."""
    # The form shows None by the text of "null".
    options: dict[str, Any] = {"enum": [None, *shown], "values_display": {"null": none, **shown}}
    return Param(None, type=["null", "string"], **options, title=title, description_md=description_md)


def _enum(shown: dict[str, str], title: str, **options: Any) -> Param:
    """A drop-down whose first choice is the default."""
    return Param(next(iter(shown)), type="string", enum=list(shown), values_display=shown, title=title, **options)


def _text(title: str, description_md: str, **options: Any) -> Param:
    return Param(None, type=["null", "string"], title=title, description_md=description_md, **options)


def _lines(title: str, description_md: str, **options: Any) -> Param:
    items = {"type": "string"}
    return Param([], type=["null", "array"], items=items, title=title, description_md=description_md, **options)


def _count(default: int, title: str, description_md: str) -> Param:
    return Param(default, type="integer", minimum=0, title=title, description_md=description_md)


READS = {
    "committed": "committed: each block as it stands when it is read",
    "snapshot": "snapshot: all tables as of one moment; changes wait until they are loaded",
    "locked": "locked: each block with its rows locked, giving way to the application",
}
CLOSINGS = {
    "show": "show: print who keeps it closed",
    "close": "close: nothing is applied from now on",
    "open": "open: take a closing back",
}
REMOVALS = {
    "first": "first: the first transaction; its tables become inconsistent",
    "all": "all: everything that waits; the slave becomes INCONSISTENT",
}
PART = {"section": "Only a part of the slave"}

FIELDS: dict[str, Callable[[Iterable[Replication]], Param]] = {
    "prefix": prefix_field,
    "slave": slave_field,
    "initial_update.slave": slaves_field,
    "location": location_field,
    "read": lambda _: _optional(
        READS,
        "Read",
        "How the tables are read on the master; as initial.read of the configuration says where "
        "nothing is chosen. The end is the same.",
        none="as the configuration says",
    ),
    "initial_update.tables": lambda _: _lines(
        "Tables", "One a line, as schema.table, with \\* for anything. **All** where nothing stands here.", **PART
    ),
    "where": lambda _: _text(
        "Where",
        "Rows of the one table above, as a condition in SQL: placed >= date '2026-01-01'. Functions and types "
        "need their schema, unless they are the database's own. The configuration must allow it: **initial.where**.",
        **PART,
    ),
    "key_from": lambda _: _text(
        "Keys from", 'The first key of the one table above: 1000, or ["NO", 1000] for two key columns.', **PART
    ),
    "key_to": lambda _: _text("Keys below", "The key that follows the last one.", **PART),
    "gate.action": lambda _: _enum(CLOSINGS, "Action"),
    "rejects.action": lambda _: _enum({"list": "list: print what is set aside", **SETTLEMENTS}, "Action"),
    "failover.sample": lambda _: _count(
        0, "Sample", "Of **planned**: about how many rows of each table are compared before the switch. 0: all."
    ),
    "sequence_gap": lambda _: _count(
        1000, "Sequence gap", "Of **forced**: how many values beyond those known each sequence leaves free."
    ),
    "resync.prefix": lambda replications: _optional(
        {str(one.prefix): str(one.prefix) for one in replications},
        "Replication",
        "The **prefix** of the replication.",
        none="all",
    ),
    "resync.slave": lambda replications: _optional(
        {name: name for name in sorted({name for one in replications for name in one.slaves})},
        "Slave",
        "A slave of the chosen **replication**.",
        none="all of the replication",
    ),
    "resync.action": lambda _: _optional(
        {"verify": "verify: report differences", "repair": "repair: fix them"},
        "Action",
        "Configured is **verify.action** of the replication.",
        none="as configured",
    ),
    "which": lambda _: _enum(REMOVALS, "Which"),
    "gate.reason": lambda _: _text(
        "Reason", "For **close**: why. Everybody who asks why the slave does not follow reads it."
    ),
    "reason": lambda _: _text("Reason", "Why; it is kept and must not be empty."),
    "slaves": lambda _: _text("Slaves", "Names with commas between them. Empty: all."),
    "seconds": lambda _: Param(
        10,
        type="number",
        minimum=0.1,
        maximum=600,
        title="Seconds",
        description_md="How long the query may take on each server. A slave applies nothing meanwhile.",
    ),
}
"""Fields that no action of the monitor has, or that are others in Airflow's form: by the name of the param, behind that
of the DAG if it is this DAG's alone. Each takes the configured replications."""


def _field(dag_id: str, name: str) -> Callable[[Iterable[Replication]], Param]:
    """A field of a DAG: its own of `FIELDS`, one of `FIELDS` for any DAG, or that of an action which starts the DAG."""
    if known := FIELDS.get(f"{dag_id}.{name}") or FIELDS.get(name):
        return known
    fields = [one for action in ACTIONS.values() if action.dag == dag_id for one in action.fields]
    return partial(_of_action, next(one for one in fields if (one.param or one.name) == name))


def _of_action(field: Field, _: Iterable[Replication]) -> Param:
    """The field of an action in Airflow's form. It may stay empty: a DAG does several actions."""
    hint = field.hint.replace("*", "\\*")
    if field.kind is Kind.CHOICE:
        return _enum(dict(field.choices), field.label, description_md=hint)
    if field.kind is Kind.LINES:
        return _lines(field.label, hint)
    if field.kind is Kind.FLAG:
        return Param(False, type="boolean", title=field.label, description_md=hint)
    return _count(0, field.label, hint) if field.kind is Kind.COUNT else _text(field.label, hint)


def _headline(doc: str) -> str:
    return inspect.cleandoc(doc).split("\n", 1)[0].lstrip("# ")


def _inline(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
