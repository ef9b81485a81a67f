"""The library itself as something that travels: its fingerprint, and the archive that Spark's executors import."""

import hashlib
import shutil
import zipimport
from functools import cache
from pathlib import Path

from sluice import sql_files

_ROOT = Path(__file__).resolve().parent
_FINGERPRINT = "fingerprint"
"""File of the archive that holds the fingerprint of what was packed."""


@cache
def fingerprint() -> str:
    """The same text wherever the same library with the same statements is installed."""
    loader: object = __spec__.loader
    if isinstance(loader, zipimport.zipimporter):
        return loader.get_data(f"sluice/{_FINGERPRINT}").decode()
    digest = hashlib.sha256()
    for folder, pattern in ((_ROOT, "*.py"), (sql_files.folder(), "*.sql")):
        for file in sorted(folder.rglob(pattern)):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(folder).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def archive(folder: Path) -> Path:
    """Makes an archive of the library and its statements in `folder`; returns its path."""
    tree = folder / "tree"
    shutil.copytree(_ROOT, tree / "sluice", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(sql_files.folder(), tree / "sluice" / sql_files.SHIPPED)
    (tree / "sluice" / _FINGERPRINT).write_text(fingerprint())
    made = shutil.make_archive(str(folder / "sluice"), "zip", tree)
    shutil.rmtree(tree)
    return Path(made)
