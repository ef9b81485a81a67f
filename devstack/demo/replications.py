"""The configuration that a demo runs under: `include/replications/DEMO.yaml` with a line for each of its slaves."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from devstack.home import REPOSITORY
from devstack.services import MARIADB

OF_VENDOR: dict[str, dict[str, object]] = {
    # Arrays, ranges and the like are texts there.
    MARIADB: {"vendor": "mysql", "lossy_columns": "*.*.*"},
}
"""What the line of a slave has besides, by the slave's name."""
SOURCE = REPOSITORY / "include" / "replications" / "DEMO.yaml"
HEADER = "# Made by ./sluice demo from include/replications/DEMO.yaml; made anew by each demo.\n"


def write(folder: Path, slaves: Iterable[str]) -> Path:
    """Write DEMO.yaml for these slaves into the folder, and return the file."""
    values = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    template = next(iter(values["slaves"].values()))
    values["slaves"] = {name: {**template, "conn_id": f"demo_{name}", **OF_VENDOR.get(name, {})} for name in slaves}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "DEMO.yaml"
    file.write_text(HEADER + yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return file
