"""The transfer by files in the form of a run: its location, the folder, the slave's location."""

from airflow.sdk import Context

from sluice.airflow import connections
from sluice.airflow.task_context import TaskContext
from sluice.configuration.model import Replication
from sluice.errors import Terminal
from sluice.load.transfer import encryption, transfer_steps
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.model.location import Location, S3Access
from sluice.storage.opening import allowed_location

FOLDER_TASK = "make_folder"
"""The task whose result is the folder of the update."""


def by_files(context: Context) -> bool:
    """Whether the form chooses the transfer by files."""
    return bool(context["params"].get("transfer") == "files")


def location(replication: Replication, context: Context) -> Location:
    """The location in the form. Raises `location-missing`, `NoLocation`, `location-not-allowed`."""
    text = str(context["params"].get("location") or "").strip()
    if not text:
        raise Terminal(
            "transfer is files, and no location is given. Start again with a location: an existing directory such as "
            "/mnt/disk, or s3://bucket/prefix. Nothing was touched.",
            code="location-missing",
        )
    return allowed_location(Location.parse(text), replication.locations, replication.source)


def access(replication: Replication) -> S3Access:
    """Access to S3. Raises as `connections.info` does."""
    return connections.s3(replication.initial.files_s3, str(replication.source))


def settled(access: S3Access, folder: Location) -> S3Access:
    """The access for a job, whose environment is another one."""
    if not folder.bucket:
        return access
    from sluice.storage import bucket

    return bucket.settled(access)


def key_text(replication: Replication) -> str | None:
    """The key of encrypted files in base64. Raises `invalid-encryption-key`, and as `connections.info` does."""
    text = connections.file_key(replication.initial.files_key, str(replication.source))
    if text is not None:
        encryption.key_of(text, f"Connection {replication.initial.files_key!r}")
    return text


def key(replication: Replication) -> bytes | None:
    """The key of encrypted files. Raises as `key_text`."""
    text = key_text(replication)
    return None if text is None else encryption.key_of(text, f"Connection {replication.initial.files_key!r}")


def written(context: Context) -> Location:
    """The folder that this run has created."""
    return Location.parse(str(context["ti"].xcom_pull(task_ids=FOLDER_TASK)))


def arrived(replication: Replication, slave: str, context: Context) -> Location:
    """The folder at the slave: at its `initial_files_location`, else where it was written."""
    folder = written(context)
    configured = replication.slave(slave).initial_files_location
    return transfer_steps.at(Location.parse(configured), folder.name) if configured else folder


def arrived_folder(task: TaskContext) -> TransferFolder:
    """The folder at the slave, as `arrived`."""
    folder = arrived(task.replication, task.slave.name, task.context)
    return TransferFolder(folder, access(task.replication), key(task.replication))


def payload(replication: Replication, step: str, folder: Location) -> dict[str, object]:
    """The folder in the payload of a load job, with the key."""
    return {
        "step": step,
        "folder": str(folder),
        "s3": settled(access(replication), folder).to_dict(),
        "key": key_text(replication),
    }
