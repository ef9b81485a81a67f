"""The actions of the monitor on slaves and masters: descriptions, fields, and the params of the DAGs. Pure.

Each action starts a DAG, or acts on a run of one, so all of them can be done in Airflow itself, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sluice.errors import Terminal
from sluice.operate import api


class Scope(StrEnum):
    """What an action is for."""

    SLAVE = "slave"
    MASTER = "master"


class Kind(StrEnum):
    """The kind of a form field."""

    TEXT = "text"
    LINES = "lines"
    CHOICE = "choice"
    FLAG = "flag"
    COUNT = "count"
    """A number of rows, or none for 0."""
    SLAVES = "slaves"
    LOCATION = "location"
    """A place of files: those that the configuration allows are offered."""
    GIVEN = "given"
    """Names what the action is about: the page fills it in, and a person does not change it."""


@dataclass(frozen=True)
class Field:
    """A field of an action's form."""

    name: str
    label: str
    kind: Kind = Kind.TEXT
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """Values with their labels."""
    default: str = ""
    required: bool = False
    param: str = ""
    """The DAG's param, if it has another name."""


@dataclass(frozen=True)
class Action:
    """An action of the monitor."""

    name: str
    label: str
    does: str
    """What it does, in full sentences."""
    dag: str
    """The DAG that it starts or whose run it changes. The right to trigger it is required."""
    scope: Scope = Scope.SLAVE
    fields: tuple[Field, ...] = ()
    conf: Mapping[str, object] = field(default_factory=dict)
    """Params of the DAG that no field has."""
    reason: bool = False
    """Whether the DAG takes the reason as a param, too."""
    danger: bool = False
    """It destroys something that only time or work restores."""
    administer: bool = False
    """It also requires the right to administer."""
    why_required: bool = False


class Incomplete(Terminal):
    """A form has a missing or invalid value."""

    def __init__(self, text: str, field: str = ""):
        self.field = field
        super().__init__(text)


RELOADED = Field("tables", "Tables", Kind.LINES, "One a line, as schema.table, with * for anything.", required=True)
TABLES = Field("tables", "Tables", Kind.LINES, "One a line, as schema.table, with * for anything. Empty: all.")
COMPARED = replace(TABLES, hint=TABLES.hint.replace("all.", "those of verify.tables in the configuration."))
IDS = Field("ids", "Numbers", hint="Such as 7, 9-12; or all. The page of the slave lists them.", required=True)
FAILOVERS = {
    "check": "check: could it take over?",
    "planned": "planned: the master answers, nothing is lost",
    "forced": "forced: the master is lost",
    "abort": "abort: take back what was begun",
}
TRANSFERS = {"online": "online: from master to slave", "files": "files: carried there by hand"}
SETTLEMENTS = {
    "apply": "apply: have the running apply apply them after all",
    "drop": "drop: settle them without applying",
}

_ALL = (
    Action(
        "initiate",
        "Initiate",
        "Makes the slave equal to its master while both are in use. Its tables are emptied and loaded again, or "
        "replaced block by block, as existing_tables of the configuration says. Until it is NORMAL again, "
        "its readers see incomplete data. With tables, only these are loaded again; all others continue.",
        api.UPDATE,
        fields=(
            Field("slaves", "Slaves", Kind.SLAVES, required=True),
            Field("transfer", "Transfer", Kind.CHOICE, choices=tuple(TRANSFERS.items()), default="online"),
            Field(
                "location",
                "Location of the files",
                Kind.LOCATION,
                "Of the transfer by files: a folder or s3://bucket/prefix.",
            ),
            TABLES,
        ),
        danger=True,
    ),
    Action(
        "cancel",
        "Cancel update",
        "Cancels the initial update that is under way. The slave becomes INCONSISTENT and needs a new initial update. "
        "After an update of some tables, only these become inconsistent.",
        api.UPDATE,
        danger=True,
        why_required=True,
    ),
    Action(
        "approve",
        "Answer",
        "Answers a run's question about the slave: the one that is shown, and no other. A transfer by files asks "
        "whether its folder has been carried to the slave's location: Approve checks its files, one by one, and "
        "imports them; Reject cancels the initial update. A comparison asks whether to repair rows that differ; Reject "
        "leaves them as they are. A failover asks before it changes anything that the application uses; Reject ends it "
        "without a change.",
        api.UPDATE,
        fields=(
            Field("question", "Question", Kind.GIVEN, "Its id, which a list of what waits shows.", required=True),
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
        "put_aside",
        "Put aside",
        "Notes that a person has seen why a run failed, and that nothing is left to do: it is not shown any more. It "
        "changes nothing else. A later run that does the same takes its place without that.",
        api.UPDATE,
        Scope.MASTER,
        fields=(
            Field("dag", "DAG", Kind.GIVEN, "Of the run.", required=True),
            Field("run", "Run", Kind.GIVEN, "Its id in Airflow.", required=True),
        ),
        why_required=True,
    ),
    Action(
        "hold",
        "Hold",
        "Closes the gate: nothing is applied to the slave from then on, and changes wait in ITEMS on the master. "
        "Nothing is lost. No restart opens it.",
        api.GATE,
        conf={"action": "close"},
        reason=True,
        why_required=True,
    ),
    Action(
        "open",
        "Open the gate",
        "Removes a person's closure of the gate. The apply continues where it stopped, unless another closure keeps "
        "the gate closed.",
        api.GATE,
        conf={"action": "open"},
        reason=True,
    ),
    Action(
        "restart",
        "Restart apply",
        "Ends the apply process, if there is one, and starts it again. It continues from the checkpoint, at first in "
        "safe mode. It opens a gate that an error had closed.",
        api.APPLY,
    ),
    Action(
        "verify",
        "Verify",
        "Compares the slave with its master at one position, while both are in use, and writes a report.",
        api.RESYNC,
        fields=(
            COMPARED,
            Field(
                "sample", "Sample", Kind.COUNT, "About how many rows of each table are compared. 0: all.", default="0"
            ),
        ),
        conf={"action": "verify"},
    ),
    Action(
        "repair",
        "Repair",
        "Compares the slave with its master and makes rows that differ equal to the master's. If more rows of a table "
        "differ than max_repair_rows, a person is asked first.",
        api.RESYNC,
        fields=(COMPARED,),
        conf={"action": "repair", "sample": 0},
        danger=True,
        why_required=True,
    ),
    Action(
        "rejects",
        "Settle rejects",
        "Settles changes that were set aside. Apply asks the running apply to apply them after all, if the row is as "
        "it was on the master before the change; other rows stay, unless they are overwritten. Drop settles them "
        "without applying.",
        api.REJECTS,
        fields=(
            Field("action", "What", Kind.CHOICE, choices=tuple(SETTLEMENTS.items()), default="apply"),
            IDS,
            Field(
                "force",
                "Overwrite the rows as they are now",
                Kind.FLAG,
                "For apply: the rows become what the changes made of them.",
            ),
        ),
        danger=True,
        why_required=True,
    ),
    Action(
        "reload",
        "Reload tables",
        "Loads the tables again while all others continue. The slave stays NORMAL; readers see these tables incomplete "
        "until they are loaded. Use it for tables that are absent or inconsistent.",
        api.UPDATE,
        fields=(RELOADED,),
        conf={"transfer": "online"},
        danger=True,
    ),
    Action(
        "remove_first",
        "Remove first transaction",
        "Removes the first waiting transaction from the slave's queue, for a transaction that can never be applied. "
        "The tables that it changes become inconsistent: their changes are left out until they are loaded again "
        "(Reload tables). All other tables continue. Close the gate first; restart the apply afterwards.",
        api.REMOVE,
        conf={"which": "first"},
        reason=True,
        danger=True,
        administer=True,
        why_required=True,
    ),
    Action(
        "clear",
        "Clear waiting changes",
        "Clears all changes that wait for the slave, whether its apply runs or not. It becomes INCONSISTENT and needs "
        "a new initial update. Other slaves are not affected. The purge of ITEMS no longer waits for this slave. Its "
        "page shows the first changes that wait.",
        api.REMOVE,
        conf={"which": "all"},
        reason=True,
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
            Field("action", "What", Kind.CHOICE, choices=tuple(FAILOVERS.items()), default="check"),
            Field(
                "reverse", "Planned: the former master becomes a slave of the new one", Kind.FLAG, "Without a new load."
            ),
            Field(
                "override",
                "Forced: continue although the master answers",
                Kind.FLAG,
                "What it commits from then on is lost.",
            ),
        ),
        danger=True,
    ),
    Action(
        "reconcile",
        "Reconcile tables",
        "Compares the configured tables with those captured on the master: adds, alters and removes them with their "
        "triggers, and creates broken triggers again. NORMAL slaves load new tables.",
        api.RECONCILE,
        Scope.MASTER,
    ),
    Action(
        "debug",
        "Debug tables",
        "Debugs the capture of tables for an hour: each of their statements writes a line to DEBUG_TABLE on the "
        "master, of which the last ones are kept. Their triggers are created again, now and when the hour is over.",
        api.RECONCILE,
        Scope.MASTER,
        fields=(replace(RELOADED, label="Tables to debug for an hour", param="debug"),),
    ),
    Action(
        "broadcast",
        "Ask all databases",
        "Asks the master and its slaves one query at one position, and compares each slave's answer with the master's. "
        "The query can only read. The configuration must allow it: broadcast: true.",
        api.BROADCAST,
        Scope.MASTER,
        fields=(
            Field(
                "statement",
                "Query",
                hint="One, with the schemas of its tables. The order of rows does not matter.",
                required=True,
            ),
            Field("slaves", "Slaves", Kind.SLAVES, "None chosen: all."),
        ),
        administer=True,
    ),
    Action(
        "send_test",
        "Send a test",
        "Sends a test notice through each notifier of the replication's configuration (notify). The run fails if one "
        "does not take it, and says why.",
        api.NOTIFY,
        Scope.MASTER,
    ),
    Action(
        "install",
        "Install resources",
        "Brings ITEMS, TABLES and all other resources of the prefix to the version of this release. Existing changes "
        "and tables stay.",
        api.INSTALL,
        Scope.MASTER,
        administer=True,
    ),
    Action(
        "uninstall",
        "Uninstall",
        "Removes triggers, ITEMS with all waiting changes, TABLES and everything else of the prefix from the master, "
        "and CHECKPOINT, BLOCKS and REJECTS from its slaves. The replicated tables and their rows stay everywhere. To "
        "replicate again, every slave must be loaded again. End the applies first: mark their runs of cdc_apply as "
        "failed.",
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
    """The actions on a slave, or on a master."""
    return [action for action in _ALL if action.scope is scope]


@dataclass(frozen=True)
class Order:
    """An action with its target and values."""

    action: Action
    prefix: str
    slaves: tuple[str, ...]
    values: Mapping[str, Any]
    why: str

    @property
    def slave(self) -> str:
        """The only slave. Raises `Incomplete` if there is another number."""
        if len(self.slaves) != 1:
            raise Incomplete(f"{self.action.label} is for one slave: choose one.")
        return self.slaves[0]


def loses(action: Action, given: Mapping[str, str], states: Mapping[str, str]) -> str:
    """What an action empties or stops, in sentences; empty if it does neither. `states`: of the chosen slaves.

    Whatever loses something wants a reason.
    """
    if action.name == "failover" and given.get("action", "check") in ("planned", "forced"):
        slaves = ", ".join(states)
        if given["action"] == "planned":
            return f"Until {slaves} is the master, the application cannot write to the replicated tables."
        return f"What the master committed after the last position that {slaves} has applied is lost."
    if action.name == "clear":
        slaves = ", ".join(states)
        return f"Every change that waits for {slaves} is lost to it: its tables stay as they are until they are loaded."
    if action.name != "initiate":
        return ""
    full = [slave for slave, state in states.items() if state in FULL]
    if not full:
        return ""
    tables = [line.strip() for line in given.get("tables", "").splitlines() if line.strip()]
    what = f"These tables of {', '.join(full)} ({', '.join(tables)})" if tables else f"All tables of {', '.join(full)}"
    now = ", ".join(f"{slave} is {states[slave]}" for slave in full)
    return f"{what} are emptied or replaced: their readers see incomplete data until they are loaded again. {now} now."


MAY_LOSE = ("initiate", "failover")
"""Actions that lose something for some slaves or values alone; see `loses`."""
FULL = ("NORMAL", "TRANSITION", "INITIAL", "UNKNOWN", "MASTER", "SWITCHING")
"""States of a slave that has rows, or may have some, that somebody reads."""


def ordered(
    action: Action, prefix: str, slaves: tuple[str, ...], given: Mapping[str, str], why: str, lost: str = ""
) -> Order:
    """Checks and converts the form of an action. `lost`: of `loses`. Raises `Incomplete`."""
    values: dict[str, Any] = {}
    for one in action.fields:
        text = given.get(one.name, one.default).strip()
        if one.kind is Kind.SLAVES:
            continue
        if one.kind is Kind.LINES:
            values[one.name] = [line.strip() for line in text.splitlines() if line.strip()]
        elif one.kind is Kind.FLAG:
            values[one.name] = text in ("on", "true", "1")
        elif one.kind is Kind.COUNT:
            if not (text or "0").isdigit():
                raise Incomplete(f"{one.label}: {text!r} is no number of rows. Write 0 for all.", one.name)
            values[one.name] = int(text or 0)
        elif one.kind is Kind.CHOICE and text not in dict(one.choices):
            raise Incomplete(f"{one.label}: {text!r} is none of {', '.join(dict(one.choices))}.", one.name)
        else:
            values[one.name] = text
        if one.required and not values[one.name]:
            raise Incomplete(f"{one.label}: missing. {one.hint}".strip(), one.name)
    if action.scope is Scope.SLAVE and not slaves:
        raise Incomplete(f"{action.label}: choose a slave.")
    why = " ".join(why.split())
    if (action.why_required or lost) and not why:
        raise Incomplete(
            f"{lost} Say why: it is kept in Airflow's audit log, and shown to everybody who asks.".strip(), "why"
        )
    if values.get("transfer") == "files" and not values["location"]:
        raise Incomplete(
            "Location of the files: missing. An existing folder such as /mnt/disk, or s3://bucket/prefix.", "location"
        )
    if "confirm" in values and values["confirm"].upper() != prefix.upper():
        raise Incomplete(f"Confirm: type {prefix}, so that nothing else is uninstalled by mistake.", "confirm")
    return Order(action, prefix, slaves, values, why)


def conf_of(order: Order) -> Sequence[Mapping[str, object]]:
    """The params of each run that the action starts."""
    action, conf = order.action, {"prefix": order.prefix, **order.action.conf}
    for one in action.fields:
        if one.kind is not Kind.SLAVES:
            value = order.values[one.name]
            conf[one.param or one.name] = None if value == "" else value
    if action.reason:
        conf["reason"] = order.why or None
    chosen = any(one.kind is Kind.SLAVES for one in action.fields)
    if action.scope is Scope.MASTER:
        return [{**conf, "slaves": ",".join(order.slaves) or None} if chosen else conf]
    if not chosen:
        return [{**conf, "slave": order.slave}]
    # One export as files serves several slaves; online each slave has its own run.
    together = order.values["transfer"] == "files"
    return [{**conf, "slave": slave} for slave in ([",".join(order.slaves)] if together else order.slaves)]
