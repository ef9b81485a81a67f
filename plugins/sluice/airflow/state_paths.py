"""Paths of Sluice's state on disk: `SLUICE_HOME`, else `.sluice` of this checkout or of Airflow's home.

    run/jobs/<id>.json     record of a job, 0600      run/jobs/<id>.result   how it ended
    run/jobs/<id>.alive    touched while it runs      run/jobs/<id>.stop     request to stop it
    run/jobs/<id>.cursor   position of the task log   logs/jobs/<id>.log     its log
    verified/              a file a slave: through when its tables are verified
    reports/<run>/         findings of a run of `resync`: report.json, report.html, and a part a table
    rehearsals/<prefix>/   a file a rehearsal that is kept (`sluice.airflow.kept_rehearsals`)

In a cluster the folder is shared by the hosts that run Airflow's workers and triggerers.
"""

import re
import time
from pathlib import Path

from sluice.paths import home

UNREPORTED_SECONDS = 24 * 3600.0


def jobs_folder() -> Path:
    """Records of jobs; created when absent, for its owner only."""
    return _private(home() / "run" / "jobs")


def job_logs_folder() -> Path:
    """Logs of jobs; created when absent, for its owner only."""
    return _private(home() / "logs" / "jobs")


def reports_folder() -> Path:
    """Reports of all runs; created when absent, for its owner only."""
    return _private(home() / "reports")


def report_folder(run_id: str) -> Path:
    """Reports of one run of `resync`; created when absent, for its owner only."""
    return _private(reports_folder() / report_name(run_id))


def report_name(run_id: str) -> str:
    """The name of a run's folder."""
    return re.sub(r"[^\w.-]", "_", run_id)


def is_unreported(run: str) -> bool:
    """Whether a run may still find more before it writes its report. `run`: name of its folder.

    A run that has written nothing for a day counts as over, and so does one whose folder is gone.
    """
    folder = reports_folder() / run
    try:
        fresh = time.time() - folder.stat().st_mtime < UNREPORTED_SECONDS
    except FileNotFoundError:
        return False
    return fresh and not (folder / "report.html").exists()


def report_link(run: str) -> str:
    """The address of a run's report in Airflow's pages. `run`: its id, or the name of its folder."""
    from airflow.sdk import conf

    return f"{conf.get('api', 'base_url', fallback='').rstrip('/')}/sluice/reports/{report_name(run)}/"


def verified_folder() -> Path:
    """Files of verified tables; created when absent, for its owner only."""
    return _private(home() / "verified")


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
