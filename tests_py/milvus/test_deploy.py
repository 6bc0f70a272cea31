"""What `deploy` holds: that it is read, and that it says what `pipeann serve` understands."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts import documents
from clusters import ROOT, binary

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "pipeann"
# All that can be chosen.
CHANGED = {
    "tls.secret": "pipeann-tls",
    "etcd.secret": "etcd-user",
    "etcd.tlsSecret": "etcd-tls",
    "etcd.clientCertificate": True,
    "store.secret": "aws",
    "store.claim": "shared",
    "storage.class": "fast",
}


def known_flags() -> set[str]:
    """Flags of `pipeann serve`, with their other spellings."""
    asked = subprocess.run([str(binary()), "serve", "--help"], capture_output=True, text=True)
    return set(re.findall(r"--[a-z][\w-]*", asked.stdout))


def check_flags(command: list[str]) -> None:
    assert command[0] == "serve"
    flags = [word.split("=")[0] for word in command[1:]]
    assert flags and set(flags) <= known_flags(), set(flags) - known_flags()


def parsed(args: list[str], tmp_path: Path) -> str:
    """What `pipeann serve` says of these flags: it ends, since no etcd answers."""
    here = [*args, f"--data-dir={tmp_path / 'data'}", f"--store=file://{tmp_path / 'store'}"]
    ran = subprocess.run(
        [str(binary()), *here, "--etcd=http://127.0.0.1:9", "--host=127.0.0.1"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 1, ran.stderr
    return ran.stderr


def test_compose_starts_three_servers_that_find_each_other(tmp_path: Path) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    servers = {name: of for name, of in services.items() if name != "etcd"}
    assert set(servers) == {"server-0", "server-1", "server-2"}
    docker = (DEPLOY / "Dockerfile").read_text()
    ports, stores = [], []
    for name, of in servers.items():
        check_flags(of["command"])
        assert f"--advertise={name}:19530" in of["command"]
        assert "--etcd=http://etcd:2379" in of["command"]
        # For this machine alone, where nobody is asked who he is.
        assert all(mapping.startswith("127.0.0.1:") for mapping in of["ports"])
        ports += [mapping.split(":")[1] for mapping in of["ports"]]
        stores.append(next(v for v in of["volumes"] if v.endswith(":/store")))
        for volume in of["volumes"]:
            assert volume.split(":")[0] in compose["volumes"]
    assert len(set(ports)) == 6 and len(set(stores)) == 1
    for of in services.values():
        assert f"AS {of['build']['target']}\n" in docker
        assert (DEPLOY / of["build"]["context"] / of["build"]["dockerfile"]).is_file()
    assert "asking etcd" in parsed(servers["server-0"]["command"], tmp_path)


@pytest.mark.parametrize("changed", [{}, CHANGED], ids=["usual", "all"])
def test_the_chart_makes_servers_that_start(changed: dict[str, Any], tmp_path: Path) -> None:
    made = {(each["kind"], each["metadata"]["name"]): each for each in made_by(changed)}
    assert set(made) == {
        ("ConfigMap", "db-pipeann"),
        ("Service", "db-pipeann"),
        ("Service", "db-pipeann-peers"),
        ("StatefulSet", "db-pipeann"),
        ("PodDisruptionBudget", "db-pipeann"),
    }
    stateful = made["StatefulSet", "db-pipeann"]["spec"]
    pod = stateful["template"]["spec"]
    (container,) = pod["containers"]
    labels = stateful["template"]["metadata"]["labels"]
    for kind, selector in [
        ("Service", lambda spec: spec["selector"]),
        ("PodDisruptionBudget", lambda spec: spec["selector"]["matchLabels"]),
        ("StatefulSet", lambda spec: spec["selector"]["matchLabels"]),
    ]:
        for (of, _), each in made.items():
            if of == kind:
                assert selector(each["spec"]) == labels
    assert stateful["serviceName"] == "db-pipeann-peers"
    check_flags(container["args"])
    advertised = next(word for word in container["args"] if word.startswith("--advertise="))
    assert ".db-pipeann-peers." in advertised
    probes = [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ["liveness", "readiness"]]
    assert probes == ["/healthz", "/readyz"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]} | claims
    # Longer than a handed lead, and last calls, may take.
    assert pod["terminationGracePeriodSeconds"] >= 40
    config = made["ConfigMap", "db-pipeann"]["data"]["serve.toml"]
    flags = tomllib.loads(config)
    assert {f"--{name}" for name in flags} <= known_flags()
    files = [value for value in flags.values() if isinstance(value, str) and value.startswith("/")]
    roots = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert all(any(f == root or f.startswith(f"{root}/") for root in roots) for f in files)
    if not changed:
        # Secrets are files that are not here.
        (tmp_path / "serve.toml").write_text(config)
        args = [word for word in container["args"] if not word.startswith("--config=")]
        args.insert(1, f"--config={tmp_path / 'serve.toml'}")
        assert "asking etcd" in parsed([*args, "--metrics-port=0"], tmp_path)


def made_by(changed: dict[str, Any]) -> list[dict]:
    """What the chart makes; Helm, where it is installed, makes the same."""
    made = documents(CHART, "db", changed)
    helm = os.environ.get("PIPEANN_HELM") or shutil.which("helm")
    if helm:
        linted = subprocess.run([helm, "lint", str(CHART)], capture_output=True, text=True)
        assert linted.returncode == 0, linted.stdout
        given = [
            word
            for path, value in changed.items()
            for word in ("--set-json", f"{path}={json.dumps(value)}")
        ]
        command = [helm, "template", "db", str(CHART), "--kube-version", "1.30.0", *given]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        by_helm = [each for each in yaml.safe_load_all(ran.stdout) if each]

        def named(of: list[dict]) -> dict:
            return {(each["kind"], each["metadata"]["name"]): each for each in of}

        assert named(by_helm) == named(made)
    return made


def test_the_chart_is_one_by_its_name_and_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert chart["apiVersion"] == "v2" and chart["name"] == CHART.name
    assert chart["appVersion"] == workspace["workspace"]["package"]["version"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["image"]["tag"] == chart["appVersion"]
