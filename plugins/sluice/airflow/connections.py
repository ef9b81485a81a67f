"""Converts Airflow's connections to what the services need. Passwords go nowhere else from here."""

import os
from collections.abc import Mapping
from dataclasses import replace

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

from sluice.configuration.model import Replication
from sluice.coordination import redis_store
from sluice.database.registry import UnknownVendor, names
from sluice.errors import Terminal, Transient
from sluice.model.airflow_connection import connection_unusable, converted
from sluice.model.connection import ConnectionInfo
from sluice.model.location import S3Access
from sluice.model.vendors import FIRST
from spark_jobs.endpoint import Endpoint

SPARK_CONNECTION = "spark_default"
SPARK_MASTER = "local[*]"
"""Where jobs run when `spark_default` names no host."""

_WHERE = "Add it in Airflow under Admin, Connections, or as AIRFLOW_CONN_{variable}."


def connection_missing(conn_id: str, used_for: str) -> Terminal:
    """Airflow has no connection `conn_id`."""
    return Terminal(
        f"Airflow has no connection {conn_id!r}, which {used_for} names. {_WHERE.format(variable=conn_id.upper())}",
        code="connection-missing",
    )


def connections_unavailable(conn_id: str, reason: str) -> Transient:
    """Airflow did not answer a request for a connection."""
    return Transient(f"Airflow did not give out the connection {conn_id!r}: {reason}", code="connections-unavailable")


def all_of(replication: Replication, *slaves: str) -> dict[str, ConnectionInfo]:
    """Connections by conn_id: of the master, unless it is only a recorded stream, and of `slaves`.

    Raises `connection-missing`, `connection-unusable`, `connections-unavailable`, `UnknownSlave`.
    """
    master, used_for = replication.master, str(replication.source)
    connections = {master.conn_id: info(master.conn_id, master.database, used_for)} if master.conn_id else {}
    sides = [replication.slave(name) for name in slaves]
    return connections | {side.conn_id: info(side.conn_id, side.vendor, used_for) for side in sides}


def info(conn_id: str, vendor: str, used_for: str) -> ConnectionInfo:
    """One connection, inside a task. `used_for` names the file that refers to it."""
    connection = _connection(conn_id, used_for)
    return _converted(connection, connection.extra_dejson, conn_id, vendor)


async def info_async(conn_id: str, vendor: str) -> ConnectionInfo:
    """The same inside a trigger, without blocking the event loop."""
    try:
        connection = await BaseHook.aget_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        # A trigger repeats the query in any case: a missing connection is like a restart of Airflow.
        raise connections_unavailable(conn_id, str(error)) from error
    return _converted(connection, await connection.aextra_dejson(), conn_id, vendor)


def _converted(connection: Connection, extra: Mapping[str, object], conn_id: str, vendor: str) -> ConnectionInfo:
    if vendor not in names():
        raise UnknownVendor(vendor)
    plain = converted(connection, extra, conn_id, vendor)
    authorities = os.environ.get("PGSSLROOTCERT")
    if not authorities or "sslrootcert" in plain.options or plain.vendor != FIRST:
        return plain
    # What connects in a job or an executor has another environment.
    return replace(plain, options={**plain.options, "sslrootcert": authorities})


def spark_pages() -> str:
    """The address of Spark's pages: the extra `pages` of `spark_default`, or empty."""
    try:
        pages = str(BaseHook.get_connection(SPARK_CONNECTION).extra_dejson.get("pages") or "")
    except Exception:  # without the connection, or Airflow's database, there is no link
        return ""
    return pages if pages.startswith(("http://", "https://")) else ""


def spark() -> dict[str, object]:
    """Fields of `spark_jobs.endpoint.Endpoint`, from the connection `spark_default`; empty without the connection.

    A connection of type `spark_connect` is an endpoint of Spark Connect, as the provider's hook reads it. One of type
    `spark` is a Spark master, for which a job starts its own Connect server: the password is the secret that the
    cluster shares with its drivers, and the extras are settings of that server, in `conf` or as `spark.…` keys.
    """
    try:
        connection = BaseHook.get_connection(SPARK_CONNECTION)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        why = _why_not(SPARK_CONNECTION, "Spark", error)
        if isinstance(why, Terminal):
            return {}
        raise why from error
    extra = connection.extra_dejson
    if connection.conn_type == "spark_connect":
        packages = {"packages": str(extra["packages"])} if extra.get("packages") else {}
        return {"remote": _connect_url(connection), **packages}
    master = connection.host or SPARK_MASTER
    if connection.port:
        master = f"{master}:{connection.port}"
        if "://" not in master:
            master = f"spark://{master}"
    settings = {name: value for name, value in extra.items() if name.startswith("spark.")}
    conf = extra.get("conf") or {}
    if not isinstance(conf, Mapping):
        raise connection_unusable(
            SPARK_CONNECTION, 'has an extra conf that is no mapping like {"spark.cores.max": "8"}.'
        )
    secret = {"spark.authenticate.secret": connection.password} if connection.password else {}
    return {"master": master, "conf": {**settings, **conf, **secret}}


def endpoint() -> Endpoint:
    """The endpoint of Spark that jobs use. Raises `connection-unusable`, `connections-unavailable`."""
    return Endpoint.read(spark())


def _connect_url(connection: Connection) -> str:
    """`sc://host:port/;token=…`. Raises `connection-unusable`."""
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
    from airflow.sdk.log import mask_secret

    if not connection.host:
        raise connection_unusable(SPARK_CONNECTION, "has no host: name the one where Spark Connect listens.")
    if connection.password:
        mask_secret(connection.password)
    try:
        return str(SparkConnectHook(SPARK_CONNECTION).get_connection_url())
    except ValueError as error:
        raise connection_unusable(SPARK_CONNECTION, f"names no endpoint of Spark Connect: {error}") from None


def s3(conn_id: str | None, used_for: str) -> S3Access:
    """Access to S3 from a connection of type `aws`; without one, boto3 finds its own credentials.

    Extras: `endpoint_url`, `region_name`, `aws_session_token`, and `verify`, the file of the authorities that certify
    the endpoint. Raises as `info` does.
    """
    if conn_id is None:
        return S3Access()
    connection = _connection(conn_id, used_for)
    if connection.conn_type != "aws":
        raise connection_unusable(conn_id, f"is of type {connection.conn_type!r}; for S3 it must be 'aws'.")
    extra = connection.extra_dejson
    return S3Access(
        connection.login or "",
        connection.password or "",
        str(extra.get("aws_session_token") or ""),
        str(extra.get("endpoint_url") or ""),
        str(extra.get("region_name") or ""),
        verify if isinstance(verify := extra.get("verify"), str) else "",
    )


def file_key(conn_id: str | None, used_for: str) -> str | None:
    """The key of encrypted files in base64: the password of a connection. None without a connection."""
    if conn_id is None:
        return None
    password = _connection(conn_id, used_for).password
    if not password:
        raise connection_unusable(conn_id, "has no password, which is to be the key: `openssl rand -base64 32`.")
    return str(password)


def redis_url() -> str:
    """The address of Redis. From now on logs mask its password. Raises `redis-not-configured`."""
    from airflow.sdk.log import mask_secret

    address = redis_store.url()
    for password in redis_store.passwords(address):
        mask_secret(password)
    return address


def _connection(conn_id: str, used_for: str) -> Connection:
    try:
        return BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        raise _why_not(conn_id, used_for, error) from error


def _why_not(conn_id: str, used_for: str, error: Exception) -> Terminal | Transient:
    """Airflow also says "not defined" if its API server did not answer: asks again to tell the two apart."""
    from airflow.sdk.exceptions import ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection

    comms = getattr(task_runner, "SUPERVISOR_COMMS", None)
    if comms is None:
        return connection_missing(conn_id, used_for)
    try:
        answer = comms.send(GetConnection(conn_id=conn_id))
    except Exception as failure:
        if getattr(getattr(failure, "error", None), "error", None) is ErrorType.CONNECTION_NOT_FOUND:
            return connection_missing(conn_id, used_for)
        return connections_unavailable(conn_id, str(failure))
    if isinstance(answer, ErrorResponse):
        if answer.error is ErrorType.CONNECTION_NOT_FOUND:
            return connection_missing(conn_id, used_for)
        return connections_unavailable(conn_id, f"{answer.error}")
    return connections_unavailable(conn_id, str(error))
