"""Examines whether a slave could take over now, and how it differs from its master; decides and reports."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from redis import Redis

from sluice import config
from sluice.configuration.resolve import rule_for
from sluice.control.checkpoint import CheckpointStore
from sluice.control.rejects import RejectStore
from sluice.coordination import lease
from sluice.coordination.gate import ADMIN, Gate
from sluice.coordination.records import Status
from sluice.coordination.verification_log import VerificationLog
from sluice.counted import counted, listed
from sluice.database import registry
from sluice.database.failover import Claim, MasterGuard
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import Session
from sluice.database.vendor import Master
from sluice.errors import SluiceError, Terminal
from sluice.failover.attempt import Failover, applied
from sluice.failover.reversal import turned
from sluice.model.checkpoint import Checkpoint
from sluice.model.failover import Action, Phase, Record, Sheet, passed
from sluice.model.issue import MASTER, Issue, Severity, errors, slave_side
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.schema_definitions import TREATMENTS, Difference, differences
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import ALL_READY

# A former master that comes back after a forced failover: what only it has, and how it is kept apart.
#
# Its last changes may never have arrived at the new master, and applications may still write to it. So it is made to
# refuse writes, its state is INCONSISTENT, and its rows are listed until a person starts an initial update of it.

log = logging.getLogger("sluice.failover")

MOST = 1_000
"""Changes of a table that are listed."""
DECIDED = (SlaveState.INITIAL, SlaveState.TRANSITION, SlaveState.NORMAL)
"""States that only a person's initial update leads to."""


@dataclass(frozen=True)
class FormerMaster:
    """The database that was the master before a forced failover."""

    failover: Failover
    record: Record
    """On the new master."""
    session: Session
    schema: str
    """Of the resources."""
    server: str
    new_server: str

    @property
    def vendor(self) -> Master:
        return master_of(self.failover.slave_info.vendor)

    @property
    def guard(self) -> MasterGuard:
        return self.vendor.failover.Guard(self.session, self.failover.prefix, self.schema)

    @property
    def checkpoints(self) -> CheckpointStore:
        return CheckpointStore(self.session, self.failover.prefix, self.schema, self.failover.slave.name)

    def only_here(self) -> list[str]:
        """The changes that it captured and the new master lacks, a line each."""
        queue = self.vendor.queue(self.session, self.failover.prefix, self.schema)
        now = queue.take()
        window, lines = Window(registry.parse_position(self.record.last), now), list[str]()
        for table in sorted(queue.captured()):
            items = queue.changes_of(window, table, MOST + 1)
            for action, new, old in items[:MOST]:
                rows = [str(self.vendor.images.row(text)) for text in (old, new) if text and action != "TRUNCATE"]
                lines.append(f"{action} {table}" + (f": {' → '.join(rows)}" if rows else ""))
            if len(items) > MOST:
                lines.append(f"… and more changes of {table}")
        return lines


def found(failover: Failover, master: Session, slave: Session) -> FormerMaster | None:
    """The former master, if a forced failover left it and no initial update of it has begun since.

    The configuration in force may be that of before the failover, or that of after it.
    """
    sides = (
        (slave, failover.slave.schema, failover.slave_info.server),
        (master, failover.replication.master.schema, failover.master_info.server),
    )
    vendor = master_of(failover.slave_info.vendor)
    for (new, new_schema, new_server), (former, schema, server) in (sides, sides[::-1]):
        record = vendor.failover.FailoverStore(new, failover.prefix, new_schema, failover.slave.name).read()
        if record is None or record.action is not Action.FORCED or not passed(record.phase, Phase.SWITCHED):
            continue
        if vendor.capture(former, failover.prefix, schema).installed() is None:
            return None
        one = FormerMaster(failover, record, former, schema, server, new_server)
        checkpoint = one.checkpoints.read()
        return None if checkpoint is not None and checkpoint.state in DECIDED else one
    return None


def keep_apart(failover: Failover) -> str:
    """Makes a former master that has come back refuse writes, and its state INCONSISTENT. Returns what a person has to
    decide; empty without a former master."""
    with failover.on_slave() as slave, failover.on_master() as master:
        one = found(failover, master, slave)
        if one is None:
            return ""
        if not all(table.refuses for table in one.guard.tables()):
            one.guard.claim(one.record.id, failover.slave.name)
            one.guard.move_claim(one.record.id, ["guarded"], "switched")
            one.guard.close(f"{one.new_server} is the master since failover {one.record.id}")
            log.warning("%s: the former master %s refuses writes from now on", failover, one.server)
        number = len(one.only_here())
        text = (
            f"The former master {one.server} has {counted(number, 'change')} that the master {one.new_server} lacks. "
            "The DAG failover, action check, lists them. Take over what is needed, then trigger initial_update of the "
            "former master, which discards them."
        )
        checkpoints = one.checkpoints
        checkpoint = checkpoints.read()
        if checkpoint is None or checkpoint.message != text:
            with one.session.transaction():
                checkpoints.ensure()
                if checkpoints.configured(lock=True).state is not SlaveState.MASTER:
                    checkpoints.move(SlaveState.INITIAL)
                checkpoints.move(SlaveState.INCONSISTENT, text)
    return text


SHOWN_DIFFERENCES = 40
"""Differences of one kind that the report lists; further ones are counted."""


def failover_not_ready(failover: Failover, reasons: Sequence[str]) -> Terminal:
    """The slave cannot take over; `reasons`: why, each with its remedy."""
    return Terminal(
        f"{failover}: no {failover.action} failover is possible now. " + " ".join(reasons), code="failover-not-ready"
    )


@dataclass
class Facts:
    """The facts of a pair that decide on a failover. Reading them changes nothing."""

    name: str
    master: str
    """`user@host:port/database`, and the connection's name."""
    slave_name: str
    silent: str = ""
    """Why nothing is known of the master: it was not reached, or `refuses`. Empty: it answered."""
    refuses: bool = False
    """Whether the master's server answers, but refuses the account or has lost its data."""
    master_time: str = ""
    checkpoint: Checkpoint | None = None
    position: Position | None = None
    applying: bool = False
    closures: list[str] = field(default_factory=list)
    heard: str = ""
    """The master's time at the apply's last position."""
    rejects: int = 0
    missing: list[TableName] = field(default_factory=list)
    """Replicated tables that the slave lacks, or has not loaded."""
    left_over: list[TableName] = field(default_factory=list)
    """Tables that only the slave has, and that the configuration would replicate from it."""
    faults: Mapping[TableName, str] = field(default_factory=dict)
    """Table → the fault of its capture."""
    verified: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    transformed: bool = False
    """Whether the configuration transforms tables of the slave."""
    elsewhere: bool = False
    """Whether the slave has tables under other names."""
    comparing: int = 0
    """The number of sessions of a comparison or repair on the slave."""
    record: Record | None = None
    claimed: str = ""
    """Another failover of this master, in words."""
    sheet: Sheet | None = None
    """The master's definitions: read now if it answered, otherwise the slave's copy."""
    different: list[Difference] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    """Other slave of the master → its state in words."""
    only_former: list[str] = field(default_factory=list)
    """After a forced failover: changes that only the former master has, in words."""
    feeds: list[str] = field(default_factory=list)
    """Names of feeds that read the master's changes."""
    sources: list[str] = field(default_factory=list)
    """Pairs that apply to this master and whose gate is open."""
    lacking: list[Issue] = field(default_factory=list)
    """What the slave's account lacks to create definitions."""
    lacking_turned: list[Issue] = field(default_factory=list)
    """What the master lacks to become a slave."""


def gather_facts(failover: Failover, store: "Redis") -> Facts:
    """Reads the facts from both sides. An error of the master is one of them; an error of the slave is raised."""
    facts = Facts(str(failover), failover.master_info.server, failover.slave.name)
    facts.transformed = failover.transforms
    facts.elsewhere = bool(failover.placement)
    facts.applying = lease.taken(store, failover.prefix, failover.slave.name)
    facts.closures = [str(one) for one in Gate(store, failover.prefix, failover.slave.name).closures()]
    facts.verified = VerificationLog(store, failover.prefix, failover.slave.name).read()
    facts.heard = str(Status(store, failover.prefix, failover.slave.name).read().get("current_as_of") or "")
    with failover.on_slave() as slave:
        _read_slave(failover, facts, slave, store)
        try:
            with failover.on_master() as master:
                _read_master(failover, facts, master)
                if former := found(failover, master, slave):
                    facts.only_former = [f"of {former.server}, a former master:", *former.only_here()]
        except SluiceError as silence:
            facts.silent, facts.refuses = str(silence), isinstance(silence, Terminal)
        if facts.sheet is None:
            facts.sheet = failover.kept(slave).sheet()
        if facts.sheet is not None:
            catalog = master_of(failover.slave_info.vendor).rows
            on_slave = catalog.shapes(slave, facts.sheet.tables)
            states = facts.checkpoint.tables if facts.checkpoint else ALL_READY
            facts.missing = [table for table in facts.sheet.tables if table not in on_slave or not states.ready(table)]
            facts.left_over = left_over(failover, slave, facts.sheet)
            facts.different = compared(failover, slave, facts.sheet)
            support = master_of(failover.slave_info.vendor).failover
            missing = support.missing_rights(slave, facts.different)
            facts.lacking = [one.at(slave_side(failover.slave.name), failover.slave_info.server) for one in missing]
    _read_others(failover, facts, store)
    return facts


def left_over(failover: Failover, slave: Session, sheet: Sheet) -> list[TableName]:
    """Tables that the master has no more, or never had, and that the configuration would replicate from the slave."""
    known = {*sheet.tables, *sheet.unreplicated}
    present = vendor_of(failover.slave_info.vendor).rows.tables(slave)
    rules = failover.replication.tables
    return [
        table
        for table in present
        if table not in known
        and not table.name.startswith(failover.prefix.lower)
        and (rule := rule_for(table, rules)) is not None
        and rule.replicate
    ]


def compared(failover: Failover, slave: Session, sheet: Sheet) -> list[Difference]:
    """The differences between the slave's definitions and those of `sheet`."""
    support = master_of(failover.slave_info.vendor).failover
    return differences(
        sheet.definitions, support.definitions(slave, failover.prefix, list(sheet.tables), all_roles=True)
    )


def read_sheet(failover: Failover, master: Session) -> Sheet:
    """The master's definitions as they are now."""
    vendor = master_of(failover.master_info.vendor)
    schema = failover.replication.master.schema
    tables = sorted(vendor.queue(master, failover.prefix, schema).captured())
    return vendor.failover.sheet(master, failover.prefix, schema, failover.master_info.server, tables)


def keep_sheet(failover: Failover, sheet: Sheet) -> bool:
    """Writes the master's definitions to the slave; False if the slave was never loaded."""
    with failover.on_slave() as slave:
        if failover.checkpoints(slave).read() is None:
            return False
        kept = failover.kept(slave)
        kept.ensure()
        kept.keep(sheet)
    return True


def _read_slave(failover: Failover, facts: Facts, slave: Session, store: "Redis") -> None:
    vendor = failover.slave_info.vendor
    facts.checkpoint = failover.checkpoints(slave).read()
    if facts.checkpoint is not None:
        facts.position = applied(failover, store, facts.checkpoint)
    facts.record = failover.kept(slave).read()
    rejects = RejectStore.of(failover, slave)
    facts.rejects = len(rejects.open()) if rejects.ready() else 0
    facts.comparing = master_of(vendor).failover.sessions_of(slave, f"{failover.apply_application} verify")


def _read_master(failover: Failover, facts: Facts, master: Session) -> None:
    vendor, schema = master_of(failover.master_info.vendor), failover.replication.master.schema
    captured = vendor.queue(master, failover.prefix, schema).captured()
    facts.faults = {table: fault for table, fault in captured.items() if fault}
    facts.feeds = sorted({read.feed for read in vendor.queue(master, failover.prefix, schema).feeds()})
    guard = vendor.failover.Guard(master, failover.prefix, schema)
    facts.claimed = _claim(guard.claimed(), failover)
    facts.sheet = read_sheet(failover, master)
    facts.master_time = facts.sheet.time
    other = turned(failover.replication, failover.slave.name)
    requirements = vendor.preflight.requirements(master, failover.replication, lambda _: True)
    missing = vendor.preflight.of_slave(master, other, other.slave(failover.slave.name), requirements, light=True)
    facts.lacking_turned = [one.at(MASTER, failover.master_info.server) for one in missing]


def _claim(claimed: Claim | None, failover: Failover) -> str:
    if claimed is None or claimed.id == failover.id:
        return ""
    if claimed.phase == "switched":
        return (
            f"{failover.master_info.server} is no master any more: failover {claimed.id} made slave "
            f"{claimed.slave} the master. Put the configuration in force that says so."
        )
    return (
        f"Failover {claimed.id} of slave {claimed.slave} is under way for this master: wait until it is through, "
        f"or trigger the DAG failover for slave {claimed.slave} with the action abort."
    )


def _read_others(failover: Failover, facts: Facts, store: "Redis") -> None:
    """Reads the state of the master's other slaves, and of pairs that apply to this master."""
    for name in failover.replication.slaves:
        if name != failover.slave.name:
            facts.others[name] = str(Status(store, failover.prefix, name).read().get("state") or "state unknown")
    for other in config.survey(failover.replication.source.parent).replications:
        for slave in other.slaves.values():
            if slave.conn_id != failover.replication.master.conn_id or other.prefix == failover.prefix:
                continue
            closed = any(one.name == ADMIN for one in Gate(store, other.prefix, slave.name).closures())
            if not closed and lease.taken(store, other.prefix, slave.name):
                facts.sources.append(f"{other.prefix} → {slave.name}")


def in_words(record: Record) -> str:
    """How far a failover is, and since when the master refuses writes for it."""
    return (
        f"{record.phase}: the master refuses writes since {record.guarded_at}" if record.refuses else str(record.phase)
    )


def goes_on(facts: Facts, failover: Failover) -> bool:
    """Whether this failover has begun before and was not aborted."""
    return facts.record is not None and facts.record.id == failover.id and facts.record.phase is not Phase.ABORTED


def blockers(
    facts: Facts, action: Action, *, failover_id: str = "", reverse: bool = False, override: bool = False
) -> list[str]:
    """Why a failover of that kind cannot begin now, each reason with its remedy; empty if it can."""
    reasons = []
    checkpoint = facts.checkpoint
    if facts.record is not None and facts.record.under_way and facts.record.id != failover_id:
        reasons.append(
            f"Failover {facts.record.id} of this slave is under way ({in_words(facts.record)}): clear its failed task, "
            "or trigger the DAG failover with the action abort."
        )
    if facts.claimed:
        reasons.append(facts.claimed)
    if checkpoint is None or facts.position is None:
        return [*reasons, "The slave was never loaded: trigger initial_update."]
    if checkpoint.state in (SlaveState.INITIAL, SlaveState.TRANSITION):
        reasons.append(
            f"An initial update of the slave runs (state {checkpoint.state}): wait until it is through, or mark its "
            "run as failed."
        )
    elif checkpoint.state is SlaveState.MASTER:
        reasons.append(f"The slave is a master already: {checkpoint.message}")
    elif checkpoint.state is SlaveState.SWITCHING and not (facts.record and facts.record.under_way):
        reasons.append("An aborted failover is not taken back yet: trigger the DAG failover with the action abort.")
    elif checkpoint.state is SlaveState.INCONSISTENT:
        reasons.append(f"The slave is INCONSISTENT ({checkpoint.message}): trigger initial_update.")
    if facts.transformed:
        reasons.append(
            "The slave has tables otherwise than the master (where, columns): as a master it would lack rows and "
            "values. Choose a slave that has all of them, or take these out and start an initial update."
        )
    if facts.elsewhere:
        reasons.append(
            "The slave has tables under other names (target): the application would not find them there. Choose a "
            "slave that has them as the master has, or take target out and start an initial update."
        )
    if facts.comparing:
        reasons.append(
            "The DAG resync compares or repairs the slave: wait until it is through, or mark its run as failed."
        )
    if facts.missing:
        reasons.append(f"The slave lacks {listed(facts.missing)}: trigger initial_update with these tables.")
    if action is Action.PLANNED:
        reasons += _of_planned(facts, reverse)
    elif (facts.refuses or not facts.silent) and not override:
        planned = f"is there, but: {facts.silent} Fix that" if facts.refuses else "answers"
        reasons.append(
            f"The master {facts.master} {planned}. Choose the action planned, which loses nothing; or, should its "
            "application be kept away from it for good, trigger this again with override."
        )
    return reasons


def _of_planned(facts: Facts, reverse: bool) -> Iterator[str]:
    if facts.silent:
        yield f"The master {_silence(facts)} Bring it back, or choose the action forced."
    if not facts.applying:
        yield "No apply runs for the slave: trigger cdc_apply."
    if facts.closures:
        yield f"The slave's gate is closed: {'; '.join(facts.closures)}. Open it: DAG gate, action open."
    if facts.rejects:
        yield (
            f"In REJECTS: {counted(facts.rejects, 'change')}. Settle with the DAG rejects, or run resync with "
            "the action repair."
        )
    for table, fault in sorted(facts.faults.items()):
        yield f"Changes of {table} are not captured ({fault}): run reconcile_tables."
    if facts.sources:
        yield (
            f"Changes of {', '.join(facts.sources)} are applied to the master: hold them back with the DAG gate, "
            "action close."
        )
    if reverse and (missing := errors(facts.lacking_turned)):
        lines = "".join(f"\n    - {one}" for one in missing)
        yield f"With reverse the master becomes a slave, and lacks what a slave needs:{lines}"


def _silence(facts: Facts) -> str:
    """The end of a sentence about the master if nothing is known of it."""
    return f"cannot be read: {facts.silent}" if facts.refuses else f"does not answer: {facts.silent}"


def report(facts: Facts, actions: Sequence[Action], *, reverse: bool = False) -> str:
    """What the log and the page of a run show; `actions`: those whose possibility is told."""
    lines = [f"{facts.name}: whether {facts.slave_name} could take over now", ""]
    for action in actions:
        reasons = blockers(facts, action, reverse=reverse)
        lines.append(f"{action}: " + ("possible" if not reasons else "not possible"))
        lines += [f"  - {reason}" for reason in reasons]
    lines += ["", *_state(facts), "", *_definitions(facts), "", *_rest(facts)]
    return "\n".join(lines)


def _state(facts: Facts) -> Iterator[str]:
    if facts.checkpoint is None:
        yield "state: UNCONFIGURED"
        return
    position = facts.position
    yield f"state: {facts.checkpoint.state}{_because(facts.checkpoint.message)}"
    if facts.checkpoint.catching_up:
        yield "  in the middle of a large window: its rows are at no one state of the master"
    if position is not None:
        lag = f", {age(position.time, facts.master_time)} behind the master's clock" if facts.master_time else ""
        yield f"position: current as of {position.time or 'unknown'}{lag}; {position}"
    if facts.silent:
        yield f"master: {_silence(facts)} The apply last saw it at {facts.heard or 'an unknown time'}"
    yield f"apply: {'runs' if facts.applying else 'does not run'}"
    yield f"gate: {'; '.join(facts.closures) or 'open'}"
    yield f"rejects: {facts.rejects} open"
    yield from _verification(facts)


def _verification(facts: Facts) -> Iterator[str]:
    never = [table for table, one in facts.verified.items() if not one.get("time")]
    wrong = [table for table, one in facts.verified.items() if one.get("outcome") not in (None, "identical")]
    times = [str(one["time"]) for one in facts.verified.values() if one.get("time")]
    tables = counted(len(facts.verified), "table")
    yield f"verified: {len(times)} of {tables}, the oldest as of {min(times)}" if times else "verified: never"
    if never and times:
        yield f"  never: {listed(never)}"
    if wrong:
        yield f"  not identical when last compared: {listed(wrong)}"


def _definitions(facts: Facts) -> Iterator[str]:
    if facts.sheet is None:
        yield (
            "definitions: the master cannot be read and the slave keeps none of them: constraints stay as they are "
            "here, and triggers, privileges, views and functions cannot be compared"
        )
        return
    source = "kept on the slave, read from the master" if facts.silent else "read from the master"
    yield f"definitions ({source} at {facts.sheet.time}): {counted(len(facts.different), 'difference')}"
    for kind, treatment in TREATMENTS.items():
        different = [one for one in facts.different if one.kind == kind]
        if not different:
            continue
        done = "a failover makes them" if treatment.automatic else "a person makes them"
        yield f"  {kind}: {len(different)}; {done} ({treatment.why})"
        for one in different[:SHOWN_DIFFERENCES]:
            yield f"    {one}" + ("" if one.statements or one.stays else f": {one.definition.text}")
            yield from (f"      {statement.strip(' ;')};" for statement in one.statements)
        if len(different) > SHOWN_DIFFERENCES:
            yield f"    … and {len(different) - SHOWN_DIFFERENCES} more"


def _rest(facts: Facts) -> Iterator[str]:
    if facts.only_former:
        head, *changes = facts.only_former
        yield from [f"changes {head} {len(changes)}; the new master lacks them", *(f"  - {line}" for line in changes)]
    if facts.sheet is not None:
        yield f"sequences: {len(facts.sheet.sequences)}, set beyond the master's by a failover"
        if facts.left_over:
            yield (
                f"tables that only the slave has: {listed(facts.left_over)}. The master dropped them, or never had "
                "them: they are not replicated from the new master; the file that reverse writes excludes them"
            )
        if facts.sheet.unreplicated:
            yield f"tables that are not replicated, and stay behind: {listed(facts.sheet.unreplicated)}"
    for name, state in facts.others.items():
        yield f"slave {name} ({state}): no longer follows the former master; it needs an initial update from the new"
    for feed in facts.feeds:
        yield (
            f"feed {feed}: its position stays with the former master; let its readers take what is left there, then "
            "start again with the new master: docs/feeds.md"
        )
    if facts.lacking:
        yield from [
            "",
            "what keeps a failover from creating all of it; fix it before, or run the statements afterwards:",
        ]
        yield from (f"  - {one}" for one in facts.lacking)
    if facts.lacking_turned:
        yield from ["", "what the master lacks to become a slave, with reverse:"]
        yield from (f"  - {one}" for one in facts.lacking_turned if one.severity is not Severity.NOTE)


def age(earlier: str, later: str) -> str:
    """The time from one clock reading to another, ISO 8601, in words; `unknown` if one is not known."""
    try:
        seconds = (_instant(later) - _instant(earlier)).total_seconds()
    except ValueError:
        return "an unknown time"
    return f"{max(seconds, 0):.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def _because(message: str) -> str:
    return f" ({message})" if message else ""
