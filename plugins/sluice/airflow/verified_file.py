"""A copy of Redis's verification log of a slave, which survives an emptied Redis.

SLUICE_HOME/verified/<PREFIX>.<slave>.json   {"update": the initial update that loaded the slave, "tables": …}
"""

import json

from sluice import whole_files
from sluice.airflow import state_paths
from sluice.coordination.verification_log import LastComparison, VerificationLog
from sluice.model.names import Prefix


class VerifiedFile:
    """The copy of one slave. A new initial update invalidates it: then all tables count as never verified."""

    def __init__(self, prefix: Prefix, slave: str):
        self._path = state_paths.verified_folder() / f"{prefix}.{slave}.json"

    def restore(self, verified: VerificationLog, update: str) -> None:
        """Restores what Redis lost since the initial update `update`."""
        former, tables = self._read()
        if former == update:
            verified.restore(tables)

    def replace(self, verified: VerificationLog, update: str) -> None:
        """Copies Redis's content."""
        self._write(update, verified.read())

    def add(self, verified: VerificationLog) -> None:
        """Adds Redis's content: Redis may have been emptied and not restored yet."""
        update, tables = self._read()
        self._write(update, {**tables, **verified.read()})

    def _read(self) -> tuple[str, dict[str, LastComparison]]:
        try:
            kept = json.loads(self._path.read_text())
            return str(kept["update"]), dict(kept["tables"])
        except (OSError, ValueError, KeyError, TypeError):  # missing, or truncated by a loss of power
            return "", {}

    def _write(self, update: str, tables: dict[str, LastComparison]) -> None:
        whole_files.write(self._path, json.dumps({"update": update, "tables": tables}, ensure_ascii=False), mode=0o600)
