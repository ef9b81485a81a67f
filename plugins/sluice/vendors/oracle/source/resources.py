"""The DbResources of a prefix on an Oracle master, in the account's own schema: installed, upgraded and removed by
files.

DDL commits implicitly, so an interrupted installation is incomplete: what exists stays, and the next run creates the
rest.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence

from sluice import sql_files
from sluice.database.capture import Installation, Line, ResourcesMissing, ResourcesNewer
from sluice.database.errors import LockNotAvailable
from sluice.errors import Terminal
from sluice.model.names import Prefix
from sluice.vendors.common.locks import SECONDS
from sluice.vendors.oracle.sessions import NAMED_LOCKS
from sluice.vendors.oracle.source import preflight_master
from sluice.vendors.oracle.source.server import Bound
from sluice.vendors.oracle.source.tables_registry import Registry

STEPS: tuple[str, ...] = ("resources_v1",)
"""Files that create and change tables, in order; the version of an installation is the number of steps it has had."""
CODE: tuple[str, ...] = ("cols_view", "origin", "code", "code_body", "capture", "structure")
"""Files of objects that can be created again, in the order of their dependencies."""
DDL_TRIGGER = "ddl_trigger"
"""The file of the trigger on the database, if the account may create one."""
_MAY_TRIGGER = "ADMINISTER DATABASE TRIGGER"
_COMMAND = re.compile(r"^(?:SET DEFINE|WHENEVER) .*$", re.MULTILINE)
"""Commands of SQL*Plus, for running the files by hand."""
RESOURCES: tuple[str, ...] = (
    *("SEQ", "INFO", "ITEMS", "TABLES", "CURRENT_TABLES", "DEBUG_TABLE", "LONGS_TABLE"),
    *("COLS_VIEW", "ORIGIN", "CODE", "CAPTURE", "STRUCTURE", "DDL"),
)
"""Names, after the prefix, of the objects that the files create."""
_VERSION, _CODE, _CASCADE = "version", "functions", "cascade"
"""Names in INFO."""


class ResourcesOutdated(Terminal):
    """The resources are of an older release than this one, or were not installed to the end."""

    def __init__(self, prefix: Prefix, account: str):
        super().__init__(
            f"{prefix}: the DbResources in schema {account} are of another release, or an installation did not come "
            "to its end. Run the DAG install_resources for this prefix; it continues in place."
        )


class NamesTaken(Terminal):
    """Other objects have names that the prefix needs."""

    def __init__(self, prefix: Prefix, account: str, names: list[str]):
        super().__init__(
            f"{prefix}: the schema {account} already has {', '.join(names)}, and no DbResources of this prefix. "
            "Choose another prefix or account, or remove these objects."
        )
        self.names = names


def digest() -> str:
    """A digest of the text of all files of this release that can be run again."""
    text = "\0".join(sql_files.render("oracle", name, prefix="DEMO_") for name in (*CODE, DDL_TRIGGER))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def units(name: str, prefix: Prefix) -> list[str]:
    """The statements and blocks of a file, each in the form for the server."""
    text = _COMMAND.sub("", sql_files.render("oracle", name, prefix=str(prefix)))
    statements = []
    for part in re.split(r"^/$", text, flags=re.MULTILINE):
        block = re.match(r"\s*(?:DECLARE|BEGIN|CREATE OR REPLACE NONEDITIONABLE (?:PACKAGE|TRIGGER))\b", part)
        statements += [part.strip()] if block else [each.strip() for each in part.split(";\n")]
    return [each for each in statements if each not in ("", "COMMIT")]


class OracleCapture(Bound):
    """See `sluice.database.capture.Capture`."""

    @property
    def registry(self) -> Registry:
        return Registry(self.session, self.prefix, self.schema)

    def installed(self) -> Installation | None:
        """The installation of the prefix in the account's schema; None without one. Raises `ResourcesNewer`."""
        if f"{self.prefix}INFO" not in self._names():
            return None
        values = dict(self.info.all())
        version = int(values.get(_VERSION, 0))
        if version > len(STEPS):
            raise ResourcesNewer(self.prefix, version, len(STEPS))
        return Installation(version, values.get(_CODE) == digest(), len(STEPS))

    def require(self) -> None:
        """Checks that the resources exist and are current. Raises `ResourcesMissing`, `ResourcesOutdated`,
        `ResourcesNewer`."""
        have = self.installed()
        if have is None:
            raise ResourcesMissing(self.prefix, self.native.schema)
        if not have.current:
            raise ResourcesOutdated(self.prefix, self.native.schema)

    def lock(self) -> None:
        """Excludes other installers of the prefix until the session ends: DDL commits, and so ends transactions."""
        if not NAMED_LOCKS.take(self.session, f"install {self.prefix}", SECONDS):
            raise LockNotAvailable(f"{self.native.server}: another session installs {self.prefix}")

    @property
    def latest(self) -> int:
        return len(STEPS)

    def ahead(self, have: Installation | None) -> tuple[()]:
        """Nothing: each step commits."""
        return ()

    def upgrade(self, have: Installation | None) -> list[str]:
        """Runs the files that `have` lacks. Returns the names of those run. Each DDL statement commits. Raises
        `NamesTaken`, `not-compiled`."""
        if have is None and (taken := self._names()):
            raise NamesTaken(self.prefix, self.native.schema, sorted(taken))
        files = list(STEPS[have.version if have else 0 :])
        if files or have is None or not have.functions_current:
            files += CODE
        self._run(files)
        if files:
            # What the trigger on the database calls must work before that is there: DDL would fail.
            self._expect_compiled()
            if _MAY_TRIGGER in preflight_master.granted(self.native, itself=True):
                self._run([DDL_TRIGGER])
                files.append(DDL_TRIGGER)
                self._expect_compiled()
            self.info.write(_VERSION, str(len(STEPS)))
            self.info.write(_CODE, digest())
        return files

    def note_wildcards(self, lines: Sequence[Line], *, keyed: bool) -> bool:
        """Does nothing: new tables are not reported, and `reconcile_tables` finds them."""
        return False

    def pass_on(self, cascade: Iterable[Prefix]) -> bool:
        """Records whose changes are captured besides the database's own; False if that was recorded already."""
        others = sorted(map(str, cascade))
        return self.info.write(_CASCADE, f",{','.join(others)},") if others else self.info.remove(_CASCADE)

    def remove(self) -> None:
        """Drops all objects of the prefix, each in its own transaction: after an interruption, the next run removes the
        rest."""
        self._run(["uninstall"])

    def make_event_triggers(self) -> None:
        """Does nothing: they are created with the resources."""

    def remove_event_triggers(self) -> None:
        """Does nothing: they are removed with the resources."""

    def has_event_triggers(self) -> bool:
        return False

    def _run(self, files: Iterable[str]) -> None:
        for name in files:
            for unit in units(name, self.prefix):
                self.native.run(unit)

    def _names(self) -> set[str]:
        """Names of the prefix's resources that are in use in the account's schema."""
        expected = {f"{self.prefix}{name}" for name in RESOURCES}
        rows = self.native.run(
            "SELECT o.OBJECT_NAME FROM USER_OBJECTS o WHERE SUBSTR(o.OBJECT_NAME, 1, LENGTH(:beginning)) = :beginning",
            {"beginning": str(self.prefix)},
        )
        return expected & {str(name) for (name,) in rows}

    def _expect_compiled(self) -> None:
        """Checks for invalid objects: code that does not compile is created nevertheless, and fails when called."""
        statement = sql_files.render("oracle", "compile_errors")
        for name, line, reason in self.native.run(statement, {"beginning": str(self.prefix)}):
            raise Terminal(
                f"{self.prefix}: {name} does not compile, line {line}: {str(reason).strip()}. Mostly the account "
                "lacks a privilege: include/sql/oracle/grants.sql grants it, not by a role but to the account "
                "itself. Then run the DAG install_resources again.",
                code="not-compiled",
            )
