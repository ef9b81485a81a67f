"""What a person sees in Airflow: the DAGs' settings, their documentation, the fields of their trigger forms.

The drop-downs show what the configuration holds when the file is parsed. A file with mistakes
takes its own replication out of them, and is named in the documentation of every DAG and in
Airflow's import errors (`dags/configuration.py`).

Descriptions hold no `code`: the form draws its box over the line above. A text that may stay empty is
one that may be None: with any other the form refuses to start the run.
"""

import inspect
import re
from collections.abc import Iterable
from typing import Any

from airflow.sdk import DAG, Param

from sluice import config
from sluice.config import ConfigError, Mistake, Replication

TAGS = ["sluice"]


def survey() -> tuple[tuple[Replication, ...], tuple[Mistake, ...]]:
    """What is configured and what is wrong; never raises because of a file's content."""
    try:
        found = config.survey()
    except ConfigError as error:
        return (), error.mistakes
    return found.replications, found.mistakes


def lifecycle_dag(dag_id: str, doc: str | None, *fields: str, **options: object) -> DAG:
    """A DAG of Sluice, started by hand or by the API with `fields` as its form.

    `fields` are names of `FIELDS`; `options` go to `DAG`.
    """
    replications, mistakes = survey()
    schedule = options.pop("schedule", None)
    chosen = {name: FIELDS[name] for name in fields}
    if options.pop("several_slaves", False):
        chosen["slave"] = slaves_field
    settings: dict[str, Any] = {
        "catchup": False,
        "is_paused_upon_creation": False,
        "max_active_runs": 64,
        "tags": TAGS,
        "params": {name: field(replications) for name, field in chosen.items()},
        "doc_md": documentation(doc or "", mistakes),
        "render_template_as_native_obj": False,
        **options,
    }
    return DAG(dag_id, schedule=schedule, description=_headline(doc or ""), **settings)


def documentation(doc: str, mistakes: Iterable[Mistake]) -> str:
    """Markdown of a DAG: what it does, below it what is wrong with the configuration."""
    text = inspect.cleandoc(doc)
    found = list(mistakes)
    if not found:
        return text
    lines = "\n".join(f"- `{_inline(str(mistake))}`" for mistake in found)
    return f"{text}\n\n## The configuration has mistakes\n\nReplications in these files cannot be used:\n\n{lines}\n"


def prefix_field(replications: Iterable[Replication]) -> Param:
    """Which replication."""
    shown = {str(one.prefix): f"{one.prefix} ({one.master.vendor}, {one.source.name})" for one in replications}
    return _choice(
        shown,
        title="Replication",
        nothing="No replication is configured: add a file to that folder.",
        description_md="The **prefix** of the replication, as its configuration file names it. Files are read from "
        + " and ".join(str(place) for place in config.folders())
        + ".",
    )


def slave_field(replications: Iterable[Replication]) -> Param:
    """Which slave; the form cannot depend on another field, so it offers the slaves of all replications."""
    owners: dict[str, list[str]] = {}
    for one in replications:
        for name in one.slaves:
            owners.setdefault(name, []).append(str(one.prefix))
    shown = {name: f"{name} (of {', '.join(prefixes)})" for name, prefixes in sorted(owners.items())}
    return _choice(
        shown,
        title="Slave",
        nothing="No slave is configured: add one under **slaves** in the file of its replication.",
        description_md="The **slave**, one of the chosen replication's. The first task checks the pair.",
    )


def slaves_field(replications: Iterable[Replication]) -> Param:
    """One slave or several; what is offered may be typed over."""
    found = list(replications)
    names = sorted({name for one in found for name in one.slaves})
    lists = sorted({",".join(one.slaves) for one in found if len(one.slaves) > 1})
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


def transfer_field(_: Iterable[Replication]) -> Param:
    """How the content of an initial update travels."""
    return Param(
        "online",
        type="string",
        enum=["online", "files"],
        values_display={
            "online": "online: from master to slave",
            "files": "files: carried there by hand",
        },
        title="Transfer",
        description_md="How the tables' content reaches the slave.",
    )


def resync_fields() -> dict[str, Param]:
    """The form of `resync`: everything may be left out, since it also runs by the clock."""
    replications, _ = survey()
    slaves = sorted({name for one in replications for name in one.slaves})
    action = {"verify": "verify: report differences", "repair": "repair: mend them"}
    prefixes = [str(one.prefix) for one in replications]
    return {
        "prefix": _optional(prefixes, "all", "Replication", "The **prefix** of the replication."),
        "slave": _optional(slaves, "all of the replication", "Slave", "A slave of the chosen **replication**."),
        "action": _optional(
            list(action), "as configured", "Action", "Configured is **verify.action** of the replication.", action
        ),
        "tables": Param(
            [],
            type=["null", "array"],
            items={"type": "string"},
            title="Tables",
            description_md="One a line, as schema.table, with \\* for anything. Empty: as **verify.tables** of the "
            "configuration says.",
        ),
        "sample": Param(
            0,
            type="integer",
            minimum=0,
            title="Sample",
            description_md="About how many rows of each table to draw at random, for a statistical check. 0: all.",
        ),
    }


def gate_fields() -> dict[str, Param]:
    """The form of `gate`."""
    replications, _ = survey()
    shown = {
        "show": "show: print who keeps it closed",
        "close": "close: nothing is applied from now on",
        "open": "open: take a closing back",
    }
    return {
        "prefix": prefix_field(replications),
        "slave": slave_field(replications),
        "action": Param("show", type="string", enum=list(shown), values_display=shown, title="Action"),
        "reason": Param(
            None,
            type=["null", "string"],
            title="Reason",
            description_md="For **close**: why. Everybody who asks why the slave does not follow reads it.",
        ),
    }


def failover_fields() -> dict[str, Param]:
    """The form of `failover`."""
    replications, _ = survey()
    shown = {
        "check": "check: list whether the slave could take over, and how it differs",
        "planned": "planned: the master refuses writes, the slave takes over with all it had",
        "forced": "forced: the master is lost, the slave takes over with what it has",
        "abort": "abort: take back what a failover has begun",
    }
    return {
        "prefix": prefix_field(replications),
        "slave": slave_field(replications),
        "action": Param("check", type="string", enum=list(shown), values_display=shown, title="Action"),
        "reverse": Param(
            False,
            type="boolean",
            title="Reverse",
            description_md="Of **planned**: the former master becomes a slave of the new one, without a new load.",
        ),
        "sample": Param(
            0,
            type="integer",
            minimum=0,
            title="Sample",
            description_md="Of **planned**: about how many rows of each table are compared before the switch. 0: all.",
        ),
        "sequence_gap": Param(
            1000,
            type="integer",
            minimum=0,
            title="Sequence gap",
            description_md="Of **forced**: how many values beyond those known each sequence leaves free.",
        ),
        "override": Param(
            False,
            type="boolean",
            title="Override",
            description_md="Of **forced**: go on although the master answers. What it commits from then on is lost.",
        ),
    }


def _optional(
    choices: list[str], none: str, title: str, description_md: str, shown: dict[str, str] | None = None
) -> Param:
    """A drop-down in which nothing need be chosen; `none` says what that means."""
    # As "null" the form looks up what to show for None.
    display = {"null": none, **(shown or {})}
    schema: dict[str, Any] = {"type": ["null", "string"], "enum": [None, *choices], "values_display": display}
    return Param(None, title=title, description_md=description_md, **schema)


def action_field(_: Iterable[Replication]) -> Param:
    """What is to be done about changes that were set aside."""
    shown = {
        "list": "list: print what is set aside",
        "apply": "apply: have the running apply apply them after all",
        "drop": "drop: settle them without applying",
    }
    return Param("list", type="string", enum=list(shown), values_display=shown, title="Action")


def ids_field(_: Iterable[Replication]) -> Param:
    """Which of them."""
    return Param(
        None,
        type=["null", "string"],
        title="Numbers",
        description_md="For **apply** and **drop**: the numbers that **list** printed, e.g. 7, 9-12; or **all**.",
    )


def force_field(_: Iterable[Replication]) -> Param:
    """Whether the rows they meet are overwritten."""
    return Param(
        False,
        type="boolean",
        title="Force",
        description_md="For **apply**: make the rows what the changes made of them, whatever they hold now.",
    )


def reason_field(_: Iterable[Replication]) -> Param:
    """Why."""
    return Param(None, type=["null", "string"], title="Reason", description_md="Why; it is kept and must not be empty.")


def confirm_field(_: Iterable[Replication]) -> Param:
    """Says that it is meant."""
    return Param(None, type=["null", "string"], title="Confirm", description_md="Type the **prefix** once more.")


def statement_field(_: Iterable[Replication]) -> Param:
    """What is asked of all databases."""
    return Param(
        None,
        type=["null", "string"],
        title="Query",
        description_md="One query, with the schemas of its tables. Rows are compared in whatever order they come.",
    )


def some_slaves_field(_: Iterable[Replication]) -> Param:
    """Which of them answer."""
    return Param(
        None, type=["null", "string"], title="Slaves", description_md="Names with commas between them. Empty: all."
    )


def seconds_field(_: Iterable[Replication]) -> Param:
    """How long a query may take."""
    return Param(
        10,
        type="number",
        minimum=0.1,
        maximum=600,
        title="Seconds",
        description_md="How long the query may take on each server. A slave applies nothing meanwhile.",
    )


def location_field(replications: Iterable[Replication]) -> Param:
    """Where the files of an initial update are written."""
    return Param(
        None,
        type=["null", "string"],
        examples=sorted({text for one in replications for text in one.locations}),
        title="Location of the files",
        description_md="For the transfer by **files**: an existing directory of the machine that runs Airflow and "
        "Spark, e.g. /mnt/disk, or s3://bucket/prefix; one that **initial.locations** of the configuration allows, or "
        "below it. A folder is made in it whose name is a unique timestamp.",
    )


def read_field(_: Iterable[Replication]) -> Param:
    shown = {
        "committed": "committed: each block as it stands when it is read",
        "snapshot": "snapshot: all tables as of one moment; changes wait until they are loaded",
        "locked": "locked: each block with its rows locked, giving way to the application",
    }
    return Param(
        None,
        type=["null", "string"],
        enum=[None, *shown],
        values_display={**shown, "null": "as the configuration says"},
        title="Read",
        description_md="How the tables are read on the master; as initial.read of the configuration says where "
        "nothing is chosen. The end is the same.",
    )


def tables_field(_: Iterable[Replication]) -> Param:
    """Which tables, one a line."""
    return Param(
        [],
        type=["null", "array"],
        items={"type": "string"},
        title="Tables",
        section=PART,
        description_md="One a line, as schema.table, with \\* for anything. **All** where nothing stands here.",
    )


def where_field(_: Iterable[Replication]) -> Param:
    """Which rows of one table."""
    return _text(
        "Where",
        "Rows of the one table above, as a condition in SQL: placed >= date '2026-01-01'. Functions and types "
        "need their schema, unless they are the database's own. The configuration must allow it: **initial.where**.",
    )


def key_from_field(_: Iterable[Replication]) -> Param:
    """Where a range of keys begins."""
    return _text("Keys from", 'The first key of the one table above: 1000, or ["NO", 1000] for two key columns.')


def key_to_field(_: Iterable[Replication]) -> Param:
    """Where it ends."""
    return _text("Keys below", "The key that follows the last one.")


def _text(title: str, description_md: str) -> Param:
    return Param(None, type=["null", "string"], title=title, description_md=description_md, section=PART)


PART = "Only a part of the slave"
"""A section of a form."""
FIELDS = {
    "tables": tables_field,
    "where": where_field,
    "key_from": key_from_field,
    "key_to": key_to_field,
    "read": read_field,
    "prefix": prefix_field,
    "slave": slave_field,
    "transfer": transfer_field,
    "location": location_field,
    "action": action_field,
    "ids": ids_field,
    "force": force_field,
    "reason": reason_field,
    "confirm": confirm_field,
    "statement": statement_field,
    "slaves": some_slaves_field,
    "seconds": seconds_field,
}


def _choice(shown: dict[str, str], title: str, nothing: str, description_md: str) -> Param:
    """A drop-down. The only choice is chosen already; among several a person must choose."""
    if not shown:
        # No enum can be empty; the first task explains what is missing.
        return Param(type="string", minLength=1, title=title, description_md=f"{description_md}\n\n{nothing}")
    schema: dict[str, Any] = {
        "type": "string",
        "enum": list(shown),
        "values_display": shown,
        "title": title,
        "description_md": description_md,
    }
    return Param(next(iter(shown)), **schema) if len(shown) == 1 else Param(**schema)


def _headline(doc: str) -> str:
    return inspect.cleandoc(doc).split("\n", 1)[0].lstrip("# ")


def _inline(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
