"""include/kubernetes runs the containers of docker-compose.yaml: same commands, environment and secrets."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "include/kubernetes"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
OBJECTS = [item for name in KUSTOMIZATION["resources"] for item in yaml.safe_load((FOLDER / name).read_text())["items"]]
PODS = {
    item["metadata"]["name"]: item["spec"]["template"]["spec"]
    for item in OBJECTS
    if item["kind"] in ("Deployment", "StatefulSet")
}
SERVICE_OF = {"spark-worker": "spark-worker-1"}
"""The pods that are named otherwise than their service."""
OURS = {"AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"}
"""They lead to the S3 server of docker-compose.yaml."""


def default(text: Any) -> str:
    """A value of Compose with the defaults of its variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(text))


def environment(name: str) -> dict[str, str]:
    found = {}
    for line in (FOLDER / f"{name}.env").read_text().splitlines():
        if not line.startswith("#"):
            key, _, found[key] = line.partition("=")
    return found


def source(secret: Any) -> tuple[str, str]:
    """The name of a secret of a service, and the path of its file."""
    if isinstance(secret, str):
        return secret, f"/run/secrets/{secret}"
    return secret["source"], secret["target"]


@pytest.mark.parametrize("name", PODS)
def test_a_pod_runs_what_its_service_runs(name: str) -> None:
    pod, service = PODS[name], SERVICES[SERVICE_OF.get(name, name)]
    (container,) = pod["containers"]
    assert [*container.get("command", ()), *container.get("args", ())] == [
        default(part) for part in (*service.get("entrypoint", ()), *service.get("command", ()))
    ]
    assert container["image"] == re.sub(":latest$", "", default(service["image"]))

    given = {entry["name"]: entry["value"] for entry in container.get("env", ())}
    for config in container.get("envFrom", ()):
        given |= environment(config["configMapRef"]["name"])
    expected = {key: default(value).replace("$$", "$") for key, value in service.get("environment", {}).items()}
    assert given == {key: value for key, value in expected.items() if key not in OURS}

    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    secrets = {
        (item["key"], f"{mounts[volume['name']]}/{item['path']}")
        for volume in pod["volumes"]
        for item in volume.get("secret", {}).get("items", ())
    }
    assert secrets == {source(secret) for secret in service.get("secrets", ())}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_no_rights_and_no_foreign_variables(name: str) -> None:
    pod = PODS[name]
    assert pod["enableServiceLinks"] is False and pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert {mount["name"] for mount in container["volumeMounts"]} <= {
            *(volume["name"] for volume in pod["volumes"]),
            *(claim["metadata"]["name"] for claim in OBJECTS if claim["kind"] == "PersistentVolumeClaim"),
            "data",
        }


def test_all_that_is_referred_to_exists() -> None:
    services = {item["metadata"]["name"] for item in OBJECTS if item["kind"] == "Service"}
    assert services == {"api-server", "spark-master", "spark-connect", "redis", "metadata"}
    maps = {generator["name"] for generator in KUSTOMIZATION["configMapGenerator"]}
    volumes = [volume for pod in PODS.values() for volume in pod["volumes"]]
    assert {volume["configMap"]["name"] for volume in volumes if "configMap" in volume} <= maps
    keys = {item["key"] for volume in volumes for item in volume.get("secret", {}).get("items", ())}
    (generator,) = KUSTOMIZATION["secretGenerator"]
    assert {path.removeprefix("secrets/") for path in generator["files"]} == keys
    makes = (ROOT / "include/docker/secrets.sh").read_text()
    assert all(key in makes for key in keys - {"spark-connect.crt", "spark-connect.key", "redis.crt", "redis.key"})
