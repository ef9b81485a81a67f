"""Where Sluice's files are that belong to no module, in a checkout and in an installed package.

A checkout has them in `dags/`, `include/sql/` and `spark_jobs/` beside `plugins/`. The package has the same folders in
`sluice/shipped/`, so that nothing but `sluice` and `sluice_plugin` appears among other people's packages.
"""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
SHIPPED = PACKAGE / "shipped"
INSTALLED = SHIPPED.is_dir()
"""Whether this is an installed package, not a checkout."""
ROOT = SHIPPED if INSTALLED else PACKAGE.parents[1]
"""The folder with `dags`, `include/sql` and `spark_jobs`."""
PROGRAM = os.environ.get("SLUICE_PROGRAM") or ("sluice" if INSTALLED else "./sluice")
"""What a person types to run Sluice: the image of docker-compose.yaml is a checkout with `sluice` on its PATH."""
DAGS = ROOT / "dags"
SQL = ROOT / "include" / "sql"


def python_path() -> list[str]:
    """What PYTHONPATH must hold for `spark_jobs`, and in a checkout for `sluice`.

    The folder of an installed package is not in it: ahead of the standard library, other packages could replace that.
    """
    return [str(ROOT)] if INSTALLED else [str(PACKAGE.parent), str(ROOT)]


def base() -> Path:
    """The folder of state and configuration that no variable places elsewhere: the checkout, or Airflow's home."""
    if not INSTALLED:
        return ROOT
    return Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser().absolute()


def home() -> Path:
    """The state folder, which `SLUICE_HOME` names; it may not exist yet."""
    configured = os.environ.get("SLUICE_HOME")
    return Path(configured).absolute() if configured else base() / ".sluice"
