"""The demo's configuration: `DEMO.yaml` of this folder with a line for each of its slaves."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from devstack.services import MARIADB

OF_VENDOR: dict[str, dict[str, object]] = {
    # MariaDB stores arrays, ranges and the like as texts.
    MARIADB: {"vendor": "mysql", "lossy_columns": "*.*.*"},
}
"""Additional settings in a slave's line, by the slave's name."""
SOURCE = Path(__file__).with_name("DEMO.yaml")
HEADER = "# Each ./sluice demo writes this file from devstack/demo/DEMO.yaml.\n"


def write(folder: Path, slaves: Iterable[str]) -> Path:
    """Writes DEMO.yaml for these slaves into the folder, and returns its path."""
    values = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    template = next(iter(values["slaves"].values()))
    values["slaves"] = {name: {**template, "conn_id": f"demo_{name}", **OF_VENDOR.get(name, {})} for name in slaves}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "DEMO.yaml"
    file.write_text(HEADER + yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return file
