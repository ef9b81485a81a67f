"""Conversion of Airflow's connections to ConnectionInfo: errors are named, secrets are never shown."""

import json
import traceback
from typing import Any

import pytest

from sluice.airflow import connections
from sluice.database.registry import UnknownVendor
from sluice.model.location import S3Access
from spark_jobs.endpoint import Endpoint
from tests.errors import raises_code

FULL = {
    "conn_type": "postgres", "host": "db", "port": 5433, "schema": "shop", "login": "anna", "password": "p@ss/w:rd",
    "extra": {"sslmode": "require", "cursor": "dictcursor"},
}  # fmt: skip


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Any:
    def define(conn_id: str, **values: Any) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({**FULL, **values}))

    return define


def test_all_fields_of_a_connection_are_converted(connection: Any) -> None:
    connection("one")
    info = connections.info("one", "postgres", "DEMO.yaml")
    assert (info.host, info.port, info.database, info.user, info.password) == ("db", 5433, "shop", "anna", "p@ss/w:rd")
    assert dict(info.options) == {"sslmode": "require"}
    assert "p@ss" not in repr(info)


def test_a_generic_connection_serves_where_airflow_has_no_provider_of_the_vendor(connection: Any) -> None:
    connection("one", conn_type="generic", port=None)
    info = connections.info("one", "mysql", "DEMO.yaml")
    assert (info.vendor, info.host, info.port, info.password) == ("mysql", "db", 3306, "p@ss/w:rd")


def test_the_port_has_a_default(connection: Any) -> None:
    connection("one", port=None)
    assert connections.info("one", "postgres", "DEMO.yaml").port == 5432


def test_a_missing_connection_is_named_with_the_place_to_add_it() -> None:
    with raises_code("connection-missing", match=r"no connection 'nowhere', which DEMO.yaml names. Add it in Airflow"):
        connections.info("nowhere", "postgres", "DEMO.yaml")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"conn_type": "mysql"}, "is of type 'mysql'; it must be 'postgres'"),
        ({"host": None}, "has no host"),
        ({"schema": None}, "has no database"),
        ({"login": None}, "has no login"),
        ({"extra": {"connect_timeout": "soon"}}, "has connect_timeout 'soon'; it must be whole seconds"),
    ],
)
def test_an_unsuitable_connection_is_explained(connection: Any, values: dict[str, Any], said: str) -> None:
    connection("odd", **values)
    with raises_code("connection-unusable", match=said) as raised:
        connections.info("odd", "postgres", "DEMO.yaml")
    assert "p@ss" not in str(raised.value)


def test_an_unknown_vendor_is_refused(connection: Any) -> None:
    connection("one")
    with pytest.raises(UnknownVendor):
        connections.info("one", "dbase", "DEMO.yaml")


def test_spark_runs_here_unless_a_connection_says_otherwise(connection: Any) -> None:
    assert connections.spark() == {}
    extra = {"spark.executor.memory": "2g", "conf": {"spark.cores.max": "8"}, "queue": "x"}
    connection("spark_default", conn_type="spark", host="spark://head", port=7077, extra=extra, password=None)
    assert connections.spark() == {
        "master": "spark://head:7077",
        "conf": {"spark.executor.memory": "2g", "spark.cores.max": "8"},
    }


@pytest.mark.parametrize("master", ["yarn", "k8s://https://head:6443", "local[2]"])
def test_every_spark_master_is_accepted(connection: Any, master: str) -> None:
    connection("spark_default", conn_type="spark", host=master, port=None, password=None, extra={})
    assert connections.spark() == {"master": master, "conf": {}}


def test_an_endpoint_of_spark_connect_is_taken_as_the_provider_reads_it(connection: Any) -> None:
    extra = {"use_ssl": True}
    connection("spark_default", conn_type="spark_connect", host="head", port=15002, login=None, extra=extra)
    found = connections.spark()
    assert found == {"remote": "sc://head:15002/;token=p%40ss/w%3Ard;use_ssl=True"}
    endpoint = Endpoint.read(found)
    assert str(endpoint) == "sc://head:15002" and "p%40ss" not in repr(endpoint)


def test_an_endpoint_without_a_host_is_refused(connection: Any) -> None:
    connection("spark_default", conn_type="spark_connect", host=None, port=15002)
    with raises_code("connection-unusable", match="has no host: name the one where Spark Connect listens"):
        connections.spark()


def test_the_token_of_the_endpoint_is_hidden_in_logs(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[str] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", hidden.append)
    connection("spark_default", conn_type="spark_connect", host="head", port=15002, extra={})
    connections.spark()
    assert "p@ss/w:rd" in hidden


def test_the_password_of_the_spark_connection_is_the_secret_of_the_cluster(connection: Any) -> None:
    connection("spark_default", conn_type="spark", host="spark://head", port=7077, password="p@ss", extra={})
    assert connections.spark() == {"master": "spark://head:7077", "conf": {"spark.authenticate.secret": "p@ss"}}


def test_spark_settings_that_are_no_mapping_are_refused(connection: Any) -> None:
    connection("spark_default", conn_type="spark", host="local[2]", port=None, extra={"conf": "spark.cores.max=8"})
    with raises_code("connection-unusable", match="extra conf that is no mapping"):
        connections.spark()


def test_a_missing_redis_url_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICE_REDIS_URL", raising=False)
    with raises_code("redis-not-configured", match="SLUICE_REDIS_URL"):
        connections.redis_url()


@pytest.mark.parametrize("address", ["redis://:s3c/ret@host:6379/0", "redis://:s3c[ret@host:6379/0", "s3c-ret@host"])
def test_a_redis_url_that_cannot_be_read_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("SLUICE_REDIS_URL", address)
    with raises_code("redis-not-configured", match="%2F for /") as raised:
        connections.redis_url()
    told = "".join(traceback.format_exception(raised.value))
    assert "s3c" not in told.split("StoreNotConfigured")[-1]
    assert raised.value.__suppress_context__


def test_the_password_of_redis_is_hidden_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[str] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", hidden.append)
    monkeypatch.setenv("SLUICE_REDIS_URL", "redis://:s3c%2Fret@host:6379/0")
    assert connections.redis_url() == "redis://:s3c%2Fret@host:6379/0"
    assert set(hidden) == {"s3c/ret", "s3c%2Fret"}


def test_s3_is_reached_with_a_connection_or_as_boto3_finds_it(connection: Any) -> None:
    assert connections.s3(None, "DEMO.yaml") == S3Access()
    extra = {"endpoint_url": "http://minio:9000", "region_name": "eu-1"}
    connection("carried", conn_type="aws", login="AKIA", password="s/ecret", extra=extra)
    found = connections.s3("carried", "DEMO.yaml")
    assert found == S3Access("AKIA", "s/ecret", "", "http://minio:9000", "eu-1")
    assert "s/ecret" not in repr(found)
    connection("odd")
    with raises_code("connection-unusable", match="for S3 it must be 'aws'"):
        connections.s3("odd", "DEMO.yaml")
    with raises_code("connection-missing"):
        connections.s3("nowhere", "DEMO.yaml")


def test_the_key_of_carried_files_is_a_password(connection: Any) -> None:
    assert connections.file_key(None, "DEMO.yaml") is None
    connection("key", conn_type="generic", password="abc=")
    assert connections.file_key("key", "DEMO.yaml") == "abc="
    connection("empty", password=None)
    with raises_code("connection-unusable", match="openssl rand"):
        connections.file_key("empty", "DEMO.yaml")
