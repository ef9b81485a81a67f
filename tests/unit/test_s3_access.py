"""What reaches S3 in a task also reaches it in jobs and executors, whose environment is another one."""

import json
from pathlib import Path

import pytest

from sluice.airflow import jobs
from sluice.model.location import S3Access
from sluice.storage import bucket
from spark_jobs.server import ConnectServer

SECRETS = {
    "AWS_ACCESS_KEY_ID": "key from the environment",
    "AWS_SECRET_ACCESS_KEY": "secret from the environment",
    "AWS_SESSION_TOKEN": "token from the environment",
}
PLACES = {
    "AWS_ENDPOINT_URL_S3": "https://s3.example:8333",
    "AWS_CA_BUNDLE": "/run/ca.crt",
    "AWS_DEFAULT_REGION": "eu-north-1",
    "PGSSLROOTCERT": "/run/postgres.crt",
    "SSL_CERT_FILE": "/run/all.crt",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for name, value in {**SECRETS, **PLACES}.items():
        monkeypatch.setenv(name, value)


def test_what_the_environment_says_travels_in_the_input_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    access = bucket.settled(S3Access())
    assert not any(secret in repr(access) for secret in list(SECRETS.values())[1:])
    there = S3Access(**json.loads(json.dumps(access.to_dict())))
    for name in (*SECRETS, *PLACES):
        monkeypatch.delenv(name)
    client = bucket._client(there)
    used = client._request_signer._credentials
    assert (used.access_key, used.secret_key, used.token) == tuple(SECRETS.values())
    assert client.meta.endpoint_url == PLACES["AWS_ENDPOINT_URL_S3"] and client.meta.region_name == "eu-north-1"
    assert client._endpoint.http_session._verify == "/run/ca.crt"


def test_a_profile_and_a_connection_come_before_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = S3Access("mine", "my secret", endpoint="http://minio:9000", region="us-west-1", ca="/mine.crt")
    assert bucket.settled(mine) == mine
    for name in (*SECRETS, *PLACES):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = p\naws_secret_access_key = q\n")
    (tmp_path / "config").write_text("[default]\nregion = r\nca_bundle = /c.crt\nendpoint_url = http://e:1\n")
    assert bucket.settled(S3Access()) == S3Access("p", "q", "", "http://e:1", "r", "/c.crt")


def test_jobs_and_executors_inherit_where_things_are_and_no_secret() -> None:
    job = jobs.environment()
    executor = ConnectServer.temporary("local[1]")
    try:
        for inherited in (job, executor.environment()):
            assert inherited.items() >= PLACES.items()
            assert not set(SECRETS.values()) & set(inherited.values())
    finally:
        executor.remove()
