"""The fingerprint of this library, and the archive of it that Spark's executors import."""

import hashlib
import zipimport
from functools import cache
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from sluice import sql_files
from sluice.paths import ROOT, SHIPPED

_ROOT = Path(__file__).resolve().parent
_JOBS = ROOT / "spark_jobs"
"""The jobs, beside the library: an apply on an executor is one of them."""
_FINGERPRINT = "fingerprint"
"""The file in the archive with the fingerprint of its content."""


@cache
def fingerprint() -> str:
    """A text that is the same for the same library with the same statements and jobs."""
    loader: object = __spec__.loader
    if isinstance(loader, zipimport.zipimporter):
        return loader.get_data(f"sluice/{_FINGERPRINT}").decode()
    digest = hashlib.sha256()
    for folder, pattern in ((_ROOT, "*.py"), (_JOBS, "*.py"), (sql_files.folder(), "*.sql")):
        for file in _files(folder, pattern):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(folder).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


@cache
def archive_bytes() -> bytes:
    """An archive of the library, its statements and the jobs. The same library gives the same bytes."""
    loader: object = __spec__.loader
    if isinstance(loader, zipimport.zipimporter):
        return Path(loader.archive).read_bytes()
    archive_file = BytesIO()
    with ZipFile(archive_file, "w", ZIP_DEFLATED) as zipped:
        statements = f"sluice/{sql_files.SHIPPED}"
        for root, target in ((_ROOT, "sluice"), (_JOBS, "spark_jobs"), (sql_files.folder(), statements)):
            for file in _files(root, "*"):
                entry = ZipInfo(f"{target}/{file.relative_to(root).as_posix()}")  # without the time of the file
                zipped.writestr(entry, file.read_bytes(), ZIP_DEFLATED)
        zipped.writestr(ZipInfo(f"sluice/{_FINGERPRINT}"), fingerprint())
    return archive_file.getvalue()


def archive(folder: Path) -> Path:
    """Writes the archive into `folder`; returns its path.

    Another library gets another name: a Spark server keeps the archives of all sessions, and refuses an archive whose
    name it has with other bytes.
    """
    archive_file = folder / f"sluice-{fingerprint()}.zip"
    archive_file.write_bytes(archive_bytes())
    return archive_file


def _files(folder: Path, pattern: str) -> list[Path]:
    """The files of the folder; of an installed library not what it ships for drivers, jobs and Airflow."""
    found = (file for file in sorted(folder.rglob(pattern)) if file.is_file() and "__pycache__" not in file.parts)
    return [file for file in found if folder != _ROOT or not file.is_relative_to(SHIPPED)]
