"""The end of `docker compose up`: makes the bucket for files, loads the example's slave, and says where the pages are.

Called by: the service `welcome` of docker-compose.yaml, when Airflow and Spark are healthy. The example is loaded only
if its file SHOP.yaml is among the replications, and only if its slave never was. Exit status 1: the load failed.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

API = "http://api-server:8080"
PASSWORDS = Path("/var/lib/airflow/passwords.json")
BUCKET = "sluice"
RETRIES, PAUSE_SECONDS = 60, 5.0
PREFIX, SLAVE = "SHOP_", "dr1"


def call(path: str, body: Any = None, token: str = "") -> Any:
    """What Airflow's API answers. One that is slow, or just started again, is asked again for some minutes: so each
    request must mean the same the second time. Raises `HTTPError` where it refuses, `OSError` where it stays silent."""
    for _ in range(RETRIES):
        try:
            return _ask(path, body, token)
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(PAUSE_SECONDS)
    return _ask(path, body, token)


def _ask(path: str, body: Any, token: str) -> Any:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(API + path, data, headers), timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def make_bucket() -> None:
    client = boto3.client("s3")
    try:
        client.head_bucket(Bucket=BUCKET)
    except ClientError:
        client.create_bucket(Bucket=BUCKET)


def state(token: str) -> str:
    """The slave's state; empty until its file was read. Waits some minutes for the slave's answer to the monitor."""
    found = "UNKNOWN"
    for _ in range(RETRIES):
        masters = call("/sluice/overview.json", token=token)["masters"]
        slaves = [one for master in masters if master["prefix"] == PREFIX for one in master["slaves"]]
        found = next((str(one["state"]) for one in slaves if one["slave"] == SLAVE), "")
        if found != "UNKNOWN":
            break
        time.sleep(PAUSE_SECONDS)
    return found


def load(token: str) -> bool:
    """Starts the first load once Airflow has read the file, and waits for its end."""
    say(f"Loads the slave {SLAVE} of the replication {PREFIX}: customers, orders and others, for about a minute.")
    runs, run = "/api/v2/dags/initial_update/dagRuns", f"welcome__{time.time_ns()}"
    wanted = {"logical_date": None, "dag_run_id": run, "conf": {"prefix": PREFIX, "slave": SLAVE}}
    while True:
        try:
            call(runs, wanted, token)
            break
        except urllib.error.HTTPError as refused:
            if refused.code == 409:  # it was asked before, and the answer was lost
                break
            if refused.code not in (400, 404, 422):  # the DAG, or its form, does not know the replication yet
                raise
            time.sleep(3)
    while (now := call(f"{runs}/{run}", token=token)["state"]) not in ("success", "failed"):
        time.sleep(2)
    return bool(now == "success")


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    make_bucket()
    password = json.loads(PASSWORDS.read_text())["admin"]
    token = call("/auth/token", {"username": "admin", "password": password})["access_token"]
    example = any((Path(one) / "SHOP.yaml").exists() for one in os.environ["SLUICE_REPLICATIONS"].split(os.pathsep))
    loaded = True
    if example and state(token) in ("", "UNCONFIGURED"):
        loaded = load(token)
    address = f"http://{os.environ['SLUICE_LISTEN']}/sluice/"
    if example:
        say(f"{PREFIX} to {SLAVE} is {state(token)}." if loaded else "The load failed: its page says why.")
    say(f"Sluice is at {address}, user admin. The password: docker compose exec api-server cat {PASSWORDS}")
    return 0 if loaded else 1


if __name__ == "__main__":
    sys.exit(main())
