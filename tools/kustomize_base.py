"""Render deploy/kustomize from the Helm chart: `python tools/kustomize_base.py PATH_OF_HELM`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
CHART = DEPLOY / "helm" / "headgate"
BASE = DEPLOY / "kustomize" / "base"
PICKER = DEPLOY / "kustomize" / "picker"
"""The endpoint picker, which belongs into the namespace of its pools."""
NAMESPACE = "headgate-system"

HEADER = "# Rendered from deploy/helm/headgate by `make kustomize-base`; do not edit.\n"
OF_HELM = re.compile(r"^ +(?:app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n", re.M)
SOURCE = re.compile(r"^# Source: headgate/templates/(\w+)/.*\n", re.M)
NAMESPACE_FILE = f"""apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


def rendered(helm: str) -> dict[str, str]:
    """The text of each file of the base, by its name."""
    objects = _objects(helm, NAMESPACE)
    files = {"namespace.yaml": NAMESPACE_FILE}
    files |= {f"{name}.yaml": _file(texts) for name, texts in sorted(objects.items())}
    return {"kustomization.yaml": _kustomization(list(files)), **files}


def rendered_picker(helm: str) -> dict[str, str]:
    """The same of the endpoint picker."""
    objects = _objects(helm, "default", "--set", "picker.enabled=true")
    return {
        "kustomization.yaml": _kustomization(["picker.yaml"]) + "namespace: default  # that of the pools\n",
        "picker.yaml": _file(objects["picker"]),
    }


def _file(texts: list[str]) -> str:
    return HEADER + "---\n".join(sorted(texts))


def _objects(helm: str, namespace: str, *options: str) -> dict[str, list[str]]:
    """The text of each object, by component."""
    command = [helm, "template", "headgate", CHART, "--namespace", namespace, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - Helm, as told
    objects: dict[str, list[str]] = {}
    component = ""
    for document in re.split(r"^---\n", done.stdout, flags=re.M):
        if found := SOURCE.search(document):
            component = found[1]
        text = OF_HELM.sub("", SOURCE.sub("", document)).strip()
        # Kustomize changes namespaces, but not in the names of cluster roles, of which the base has one each.
        text = re.sub(rf"-{NAMESPACE}\b", "", text)
        if text:
            objects.setdefault(component, []).append(f"{text}\n")
    return objects


def _kustomization(names: list[str]) -> str:
    lines = [
        "# The definitions are not part of it: kubectl apply --server-side -k deploy/crds",
        "apiVersion: kustomize.config.k8s.io/v1beta1",
        "kind: Kustomization",
        "resources:",
        *(f"  - {name}" for name in names),
    ]
    return HEADER + "\n".join(lines) + "\n"


def main(helm: str) -> None:
    BASE.mkdir(parents=True, exist_ok=True)
    for name, text in rendered(helm).items():
        (BASE / name).write_text(text, encoding="utf-8")
    PICKER.mkdir(parents=True, exist_ok=True)
    for name, text in rendered_picker(helm).items():
        (PICKER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
