"""Carried files in S3, or in another store with its protocol."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
)

from sluice.model.location import Location, S3Access, is_folder_name
from sluice.storage.folder import FileGone, FileThere, LocationUnreachable, LocationUnusable, digest_of, known

PIECE_BYTES = 256 * 1024
PART_BYTES = 8 * 1024 * 1024
"""Size of the first parts of a multipart upload. S3 accepts 10,000 parts, so later ones are larger."""
PARTS_OF_A_SIZE = 1_000
_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict"}
_ABSENT = {"NoSuchKey", "404"}
PROBE = ".sluice-probe"
_STATIC = ("env", "shared-credentials-file", "config-file")
"""boto3's names of the places whose credentials do not expire."""


def settled(access: S3Access) -> S3Access:
    """What this process would use, for processes with another environment, perhaps on other machines.

    Credentials of a role are left out: they would expire, and each machine gets its own.
    """
    import boto3

    session = boto3.Session()
    scoped: dict[str, Any] = session._session.get_scoped_config()  # noqa: SLF001
    found = None if access.key_id else session.get_credentials()
    if found is not None and found.method in _STATIC:
        access = replace(access, key_id=found.access_key, secret=found.secret_key, token=found.token or "")
    named = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or scoped.get("endpoint_url")
    return replace(
        access,
        endpoint=access.endpoint or str(named or ""),
        region=access.region or session.region_name or "",
        ca=access.ca or os.environ.get("AWS_CA_BUNDLE") or str(scoped.get("ca_bundle") or ""),
    )


def _client(access: S3Access) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        aws_access_key_id=access.key_id or None,
        aws_secret_access_key=access.secret or None,
        aws_session_token=access.token or None,
        endpoint_url=access.endpoint or None,
        region_name=access.region or None,
        verify=access.ca or None,
        config=Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60),
    )


class BucketStorage:
    """See `Storage`."""

    def __init__(self, location: Location, access: S3Access):
        self.location = location
        self.access = access
        with _classified(location):
            self._client = _client(access)

    def probe(self) -> None:
        with _classified(self.location):
            key = self.location.below(PROBE).path
            self._client.put_object(Bucket=self.location.bucket, Key=key, Body=b"")
            self._client.delete_object(Bucket=self.location.bucket, Key=key)

    def folders(self) -> list[str]:
        beginning = f"{self.location.path}/" if self.location.path else ""
        names = []
        with _classified(self.location):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.location.bucket, Prefix=beginning, Delimiter="/"
            )
            for page in pages:
                names += [common["Prefix"][len(beginning) :].rstrip("/") for common in page.get("CommonPrefixes", ())]
        return sorted(name for name in names if is_folder_name(name))

    def create(self, name: str, first: str, content: bytes) -> "BucketFolder | None":
        folder = BucketFolder(self.location.below(name), self.access)
        try:
            sink = folder.create(first)
            sink.write(content)
            sink.close()
        except FileThere:
            return None
        return folder


class BucketFolder:
    """See `Folder`."""

    def __init__(self, location: Location, access: S3Access):
        self.location = location
        with _classified(location):
            self._client = _client(access)

    def sizes(self) -> dict[str, int]:
        entries = self._entries()
        if not entries:
            raise FileGone(self.location, "is not there")
        return {name: entry["Size"] for name, entry in entries.items() if known(name)}

    def fingerprint(self) -> str:
        entries = {name: entry for name, entry in self._entries().items() if known(name)}
        return digest_of((name, at["Size"], at["ETag"], at["LastModified"]) for name, at in sorted(entries.items()))

    def _entries(self) -> dict[str, Any]:
        """What S3 says of each object of the folder, by name."""
        beginning = f"{self.location.path}/"
        with _classified(self.location):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.location.bucket, Prefix=beginning
            )
            return {entry["Key"][len(beginning) :]: entry for page in pages for entry in page.get("Contents", ())}

    def create(self, name: str) -> "_BucketSink":
        assert known(name)
        return _BucketSink(self._client, self.location.below(name))

    def read(self, name: str) -> Iterator[bytes]:
        assert known(name)
        location = self.location.below(name)
        with _classified(location):
            try:
                body = self._client.get_object(Bucket=location.bucket, Key=location.path)["Body"]
            except ClientError as error:
                if _code(error) in _ABSENT:
                    raise FileGone(location) from None
                raise
            yield from body.iter_chunks(PIECE_BYTES)

    def remove(self, name: str) -> None:
        assert known(name)
        with _classified(self.location):
            self._client.delete_object(Bucket=self.location.bucket, Key=self.location.below(name).path)

    def clear(self) -> None:
        for name in sorted(self.sizes()):
            self.remove(name)


class _BucketSink:
    """Writes a small object with one request, a larger one as a multipart upload; never a partial object."""

    def __init__(self, client: Any, location: Location):
        self._client = client
        self._location = location
        self._target = {"Bucket": location.bucket, "Key": location.path}
        self._buffer = bytearray()
        self._upload: str | None = None
        self._parts: list[dict[str, object]] = []

    def write(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= PART_BYTES * (1 + len(self._parts) // PARTS_OF_A_SIZE):
            self._send()

    def close(self) -> None:
        try:
            with _classified(self._location):
                if self._upload is None:
                    self._client.put_object(**self._target, Body=bytes(self._buffer), IfNoneMatch="*")
                    return
                self._send()
                self._client.complete_multipart_upload(
                    **self._target, UploadId=self._upload, MultipartUpload={"Parts": self._parts}, IfNoneMatch="*"
                )
                self._upload = None
        finally:
            self.abandon()

    def abandon(self) -> None:
        self._buffer = bytearray()
        if self._upload is not None:
            upload, self._upload = self._upload, None
            with _classified(self._location):
                self._client.abort_multipart_upload(**self._target, UploadId=upload)

    def _send(self) -> None:
        with _classified(self._location):
            if self._upload is None:
                self._upload = str(self._client.create_multipart_upload(**self._target)["UploadId"])
            if not self._buffer:
                return
            number = len(self._parts) + 1
            sent = self._client.upload_part(
                **self._target, UploadId=self._upload, PartNumber=number, Body=bytes(self._buffer)
            )
            self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})
            self._buffer = bytearray()


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def _classified(location: Location) -> Iterator[None]:
    """Turns errors of boto3 into those of `sluice.storage.folder`."""
    try:
        yield
    except ClientError as error:
        if _code(error) in _TAKEN:
            raise FileThere(location) from None
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if status >= 500 or status == 429 or _code(error) in {"SlowDown", "RequestTimeout"}:
            raise LocationUnreachable(location, str(error)) from error
        raise LocationUnusable(location, f"S3 refuses: {error}. Check the bucket and the connection") from error
    except HTTPClientError as error:
        raise LocationUnreachable(location, str(error)) from error
    except NoCredentialsError as error:
        raise LocationUnusable(
            location, "there are no credentials for S3: name a connection in initial.files_s3, or set AWS_ACCESS_KEY_ID"
        ) from error
    except (ValueError, NoRegionError, ParamValidationError, PartialCredentialsError, ProfileNotFound) as error:
        # boto3 raises ValueError for an endpoint without http://, and a subclass of it for an invalid region.
        raise LocationUnusable(
            location,
            f"S3 cannot be asked: {error}. Correct the connection (endpoint_url, e.g. http://minio:9000; region_name)",
        ) from error
    except BotoCoreError as error:
        raise LocationUnreachable(location, str(error)) from error
