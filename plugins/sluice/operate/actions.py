"""What a person can do about a slave or a master, with what it does and what it wants to know. No I/O.

Each action starts a DAG, or acts on a run of one: there is nothing here that cannot be done in Airflow itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sluice.errors import Terminal
from sluice.operate import api


class Scope(StrEnum):
    """What an action is about."""

    SLAVE = "slave"
    MASTER = "master"


class Kind(StrEnum):
    """How a field is filled in."""

    TEXT = "text"
    LINES = "lines"
    CHOICE = "choice"
    FLAG = "flag"
    SLAVES = "slaves"


@dataclass(frozen=True)
class Field:
    """Something that an action wants to know."""

    name: str
    label: str
    kind: Kind = Kind.TEXT
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """Values, each with what it is called."""
    default: str = ""
    required: bool = False


@dataclass(frozen=True)
class Action:
    """One thing that a person can do."""

    name: str
    label: str
    does: str
    """What will happen, in full sentences."""
    dag: str
    """The DAG that it starts or acts upon: who may trigger it, may do this."""
    scope: Scope = Scope.SLAVE
    fields: tuple[Field, ...] = ()
    danger: bool = False
    """It gives something up that comes back only with time or work."""
    administer: bool = False
    """It wants the right to administer besides."""
    why_required: bool = False


class Incomplete(Terminal):
    """A form lacks something, or holds what cannot be."""

    def __init__(self, text: str, field: str = ""):
        self.field = field
        super().__init__(text)


RELOADED = Field("tables", "Tables", Kind.LINES, "One a line, as schema.table, with * for anything.", required=True)
TABLES = Field("tables", "Tables", Kind.LINES, "One a line, as schema.table, with * for anything. Empty: all.")
IDS = Field("ids", "Numbers", hint="Such as 7, 9-12; or all. The page of the slave lists them.", required=True)
FAILOVERS = (
    ("check", "check: could it take over?"),
    ("planned", "planned: the master answers, nothing is lost"),
    ("forced", "forced: the master is lost"),
    ("abort", "abort: take back what was begun"),
)
TRANSFERS = (("online", "online: from master to slave"), ("files", "files: carried there by hand"))

_ALL = (
    Action(
        "initiate",
        "Initiate",
        "Makes the slave equal to its master while both are in use. Its tables are emptied and loaded again, or "
        "replaced block by block, as existing_tables of the configuration says. Until it is NORMAL again, "
        "its readers see incomplete data. With tables, only these are loaded again and all else replicates on.",
        api.UPDATE,
        fields=(
            Field("slaves", "Slaves", Kind.SLAVES, required=True),
            Field("transfer", "Transfer", Kind.CHOICE, choices=TRANSFERS, default="online"),
            Field(
                "location", "Location of the files", hint="Of the transfer by files: a folder or s3://bucket/prefix."
            ),
            TABLES,
        ),
        danger=True,
    ),
    Action(
        "cancel",
        "Cancel update",
        "Cancels the initial update that is under way. The slave is INCONSISTENT then, and needs a new initial update; "
        "of an update of some tables, only these do.",
        api.UPDATE,
        danger=True,
        why_required=True,
    ),
    Action(
        "approve",
        "Answer",
        "Answers what a run asks about the slave. A transfer by files asks whether its folder has been carried to the "
        "slave's location: its files are checked then, one by one, and imported; Reject cancels the initial update. A "
        "comparison asks whether rows that differ are made equal to the master's; Reject leaves them as they are. A "
        "failover asks before the application notices anything; Reject ends it, and nothing is changed.",
        api.UPDATE,
        fields=(
            Field(
                "answer",
                "Answer",
                Kind.CHOICE,
                choices=(("Approve", "Approve"), ("Reject", "Reject")),
                default="Approve",
            ),
        ),
    ),
    Action(
        "hold",
        "Hold",
        "Closes the gate: nothing is applied to the slave from then on, and changes wait in ITEMS on the master. "
        "Nothing is lost. No restart opens it.",
        api.GATE,
        why_required=True,
    ),
    Action(
        "open",
        "Open the gate",
        "Takes a person's closing of the gate back. The apply goes on where it was, unless somebody else keeps the "
        "gate closed as well.",
        api.GATE,
    ),
    Action(
        "restart",
        "Restart apply",
        "Ends the process that applies, if there is one, and starts it again. It goes on at the checkpoint, and "
        "applies in safe mode at first. A gate that an error had closed is opened by it.",
        api.APPLY,
    ),
    Action(
        "verify",
        "Verify",
        "Compares the slave with its master at one position, while both are in use, and writes a report.",
        api.RESYNC,
        fields=(
            TABLES,
            Field("sample", "Sample", hint="About how many rows of each table are compared. 0: all.", default="0"),
        ),
    ),
    Action(
        "repair",
        "Repair",
        "Compares the slave with its master and makes the rows that differ equal to the master's. Where more rows of a "
        "table differ than max_repair_rows, a person is asked first.",
        api.RESYNC,
        fields=(TABLES,),
        danger=True,
        why_required=True,
    ),
    Action(
        "rejects",
        "Settle rejects",
        "Settles changes that were set aside. Apply has the running apply apply them after all, where the row is still "
        "what the master had before; with force whatever it holds. Drop settles them without applying.",
        api.REJECTS,
        fields=(
            Field(
                "action",
                "What",
                Kind.CHOICE,
                choices=(("apply", "apply them after all"), ("drop", "drop them")),
                default="apply",
            ),
            IDS,
            Field("force", "Overwrite what the rows hold now", Kind.FLAG),
        ),
        danger=True,
        why_required=True,
    ),
    Action(
        "reload",
        "Reload tables",
        "Loads the tables anew while everything else replicates on. The slave stays NORMAL; readers see these tables "
        "incomplete until they are loaded. It is what a table needs that is absent or inconsistent.",
        api.UPDATE,
        fields=(RELOADED,),
        danger=True,
    ),
    Action(
        "remove_first",
        "Remove first transaction",
        "Takes the first transaction that waits out of the slave's queue, where the apply can never apply it. The "
        "tables that it changes are INCONSISTENT from then on: none of their changes is applied until they are loaded "
        "again (Reload tables). All other tables go on. The gate must be closed first; afterwards restart the apply.",
        api.REMOVE,
        danger=True,
        administer=True,
        why_required=True,
    ),
    Action(
        "failover",
        "Fail over",
        "Makes the slave the master. Check lists whether it could take over now, and how it differs from the master; "
        "it changes nothing. Planned: the master refuses writes, the slave applies all it had and takes over. Forced: "
        "the master is lost, and what it committed after the last applied position with it. Both ask a person first "
        "(Answer). Abort takes back what a failover has begun.",
        api.FAILOVER,
        fields=(
            Field("action", "What", Kind.CHOICE, choices=FAILOVERS, default="check"),
            Field("reverse", "Planned: the former master becomes a slave of the new one", Kind.FLAG),
            Field("override", "Forced: go on although the master answers", Kind.FLAG),
        ),
        danger=True,
    ),
    Action(
        "reconcile",
        "Reconcile tables",
        "Compares the configured tables with those captured on the master: adds, alters and removes them with their "
        "triggers, and makes broken triggers again. NORMAL slaves load what joins.",
        api.RECONCILE,
        Scope.MASTER,
    ),
    Action(
        "broadcast",
        "Ask all databases",
        "Asks one query of the master and its slaves at one position, and says which slave answers as the master did. "
        "It can only read. The configuration must allow it: broadcast: true.",
        api.BROADCAST,
        Scope.MASTER,
        fields=(
            Field("statement", "Query", hint="With the schemas of its tables.", required=True),
            Field("slaves", "Slaves", hint="Names with commas between them. Empty: all."),
        ),
        administer=True,
    ),
    Action(
        "install",
        "Install resources",
        "Brings ITEMS, TABLES and all other resources of the prefix to the version of this release. What is there is "
        "not touched.",
        api.INSTALL,
        Scope.MASTER,
        administer=True,
    ),
    Action(
        "uninstall",
        "Uninstall",
        "Removes triggers, ITEMS with all changes that wait, TABLES and all else of the prefix from the master, and "
        "CHECKPOINT, BLOCKS and REJECTS from its slaves. The replicated tables and their rows stay everywhere. To "
        "replicate again, every slave is loaded anew. Applies must have been ended before: "
        "mark their runs of cdc_apply as failed.",
        api.UNINSTALL,
        Scope.MASTER,
        fields=(Field("confirm", "Confirm", hint="Type the prefix.", required=True),),
        danger=True,
        administer=True,
        why_required=True,
    ),
)
ACTIONS: Mapping[str, Action] = {action.name: action for action in _ALL}
DAGS = frozenset(action.dag for action in _ALL)


def of(scope: Scope) -> list[Action]:
    """All that can be done about a slave, or about a master."""
    return [action for action in _ALL if action.scope is scope]


@dataclass(frozen=True)
class Order:
    """An action with all that it wants to know."""

    action: Action
    prefix: str
    slaves: tuple[str, ...]
    values: Mapping[str, Any]
    why: str

    @property
    def slave(self) -> str:
        """The only one. Raises `Incomplete`."""
        if len(self.slaves) != 1:
            raise Incomplete(f"{self.action.label} is for one slave: choose one.")
        return self.slaves[0]


def ordered(action: Action, prefix: str, slaves: tuple[str, ...], given: Mapping[str, str], why: str) -> Order:
    """From what a person filled in. Raises `Incomplete` with what is missing."""
    values: dict[str, Any] = {}
    for field in action.fields:
        text = given.get(field.name, field.default).strip()
        if field.kind is Kind.SLAVES:
            continue
        if field.kind is Kind.LINES:
            values[field.name] = [line.strip() for line in text.splitlines() if line.strip()]
        elif field.kind is Kind.FLAG:
            values[field.name] = text in ("on", "true", "1")
        elif field.kind is Kind.CHOICE and text not in dict(field.choices):
            raise Incomplete(f"{field.label}: {text!r} is none of {', '.join(dict(field.choices))}.", field.name)
        else:
            values[field.name] = text
        if field.required and not values[field.name]:
            raise Incomplete(f"{field.label}: missing. {field.hint}".strip(), field.name)
    if action.scope is Scope.SLAVE and not slaves:
        raise Incomplete(f"{action.label}: choose a slave.")
    why = " ".join(why.split())
    if action.why_required and not why:
        raise Incomplete("Say why: it is kept in Airflow's audit log, and shown to everybody who asks.", "why")
    if values.get("transfer") == "files" and not values["location"]:
        raise Incomplete(
            "Location of the files: missing. An existing folder such as /mnt/disk, or s3://bucket/prefix.", "location"
        )
    if "confirm" in values and values["confirm"].upper() != prefix.upper():
        raise Incomplete(f"Confirm: type {prefix}, so that nothing else is uninstalled by mistake.", "confirm")
    if not str(values.get("sample", "0") or "0").isdigit():
        raise Incomplete(f"Sample: {values['sample']!r} is no number of rows. Write 0 for all.", "sample")
    return Order(action, prefix, slaves, values, why)


def conf_of(order: Order) -> Sequence[Mapping[str, object]]:
    """Of actions that start a DAG: the params of each run to start."""
    values, name = order.values, order.action.name
    if name == "uninstall":
        return [{"prefix": order.prefix, "confirm": values["confirm"]}]
    if name == "broadcast":
        return [{"prefix": order.prefix, "statement": values["statement"], "slaves": values["slaves"] or None}]
    if order.action.scope is Scope.MASTER:
        return [{"prefix": order.prefix}]
    if name == "initiate":
        common = {"prefix": order.prefix, "transfer": values["transfer"], "location": values["location"] or None,
                  "tables": values["tables"]}  # fmt: skip
        # One export as files serves several slaves; online each reads the master for itself.
        together = values["transfer"] == "files"
        slaves = [",".join(order.slaves)] if together else list(order.slaves)
        return [{**common, "slave": slave} for slave in slaves]
    pair = {"prefix": order.prefix, "slave": order.slave}
    if name in ("hold", "open"):
        return [{**pair, "action": "close" if name == "hold" else "open", "reason": order.why or None}]
    if name in ("verify", "repair"):
        return [{**pair, "action": name, "tables": values["tables"], "sample": int(values.get("sample") or 0)}]
    if name == "reload":
        return [{**pair, "transfer": "online", "tables": values["tables"]}]
    if name == "failover":
        return [{**pair, **values}]
    if name == "remove_first":
        return [{**pair, "reason": order.why}]
    if name == "rejects":
        return [{**pair, "action": values["action"], "ids": values["ids"], "force": values["force"]}]
    return [pair]
