"""Update what the files in deploy take from each other and from the code: `python tools/deployment.py`.

- deploy/crds/Kustomization lists the definitions.
- values.schema.json of the Helm chart has the settings of the gateway, which their types define.
- deploy/admission/policies.yaml has the ValidatingAdmissionPolicies, which `headgate.api.policies` defines.
- files/alerts.yaml, files/signals.yaml and files/policies.yaml of the chart are copies: a chart cannot read
  files outside of its directory.

`tools/kustomize_base.py` updates deploy/kustomize, and needs Helm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml

from headgate.api import policies
from headgate.gateway import GatewaySettings, setting_types

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
CHART = DEPLOY / "helm" / "headgate"
SCHEMA = CHART / "values.schema.json"
RULES = {
    DEPLOY / "prometheus" / "headgate-alerts.yaml": CHART / "files" / "alerts.yaml",
    DEPLOY / "prometheus" / "headgate-signals.yaml": CHART / "files" / "signals.yaml",
}
"""Those of Prometheus, and their copies."""
POLICIES = DEPLOY / "admission" / "policies.yaml"
COPY_OF_POLICIES = CHART / "files" / "policies.yaml"
DEFINITIONS = DEPLOY / "crds"
LIST_OF_DEFINITIONS = DEFINITIONS / "Kustomization"
"""Without an extension, so that `kubectl apply -f deploy/crds` works, too."""


def list_of_definitions() -> str:
    lines = [
        "# The definitions of Headgate's kinds: kubectl apply --server-side -k deploy/crds",
        "apiVersion: kustomize.config.k8s.io/v1beta1",
        "kind: Kustomization",
        "resources:",
        *(f"  - {path.name}" for path in sorted(DEFINITIONS.glob("*.yaml"))),
    ]
    return "\n".join(lines) + "\n"


def list_of_policies() -> str:
    header = "# Generated from headgate.api.policies by `make generated`; do not edit.\n"
    documents = (
        yaml.safe_dump(each, sort_keys=False, allow_unicode=True, width=110) for each in policies.manifests()
    )
    return header + "---\n".join(documents)


def schema(text: str) -> str:
    """The schema of the values, with the current settings."""
    values = json.loads(text)
    values["properties"]["gateway"]["properties"]["settings"] = _settings()
    return json.dumps(values, indent=2) + "\n"


def _settings() -> dict[str, Any]:
    definitions = msgspec.json.schema(GatewaySettings)["$defs"]
    references = definitions["GatewaySettings"]["properties"]
    sections = {}
    for section in setting_types.sections():
        fields = definitions[references[section.name]["$ref"].rpartition("/")[2]]["properties"]
        names = [setting.name for setting in section.settings if not setting.is_derived]
        sections[section.name] = _object({name: _nullable(fields[name]) for name in names})
    return _object(sections)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": ["object", "null"], "additionalProperties": False, "properties": properties}


def _nullable(found: dict[str, Any]) -> dict[str, Any]:
    """null removes a value of values.yaml."""
    plain = {key: value for key, value in found.items() if key not in ("description", "default", "title")}
    if "enum" in plain:
        return plain | {"enum": [*plain["enum"], None]}
    if "type" in plain:
        return plain | {"type": [plain["type"], "null"]}
    return plain


def main() -> None:
    LIST_OF_DEFINITIONS.write_text(list_of_definitions(), encoding="utf-8")
    SCHEMA.write_text(schema(SCHEMA.read_text(encoding="utf-8")), encoding="utf-8")
    POLICIES.parent.mkdir(exist_ok=True)
    COPY_OF_POLICIES.parent.mkdir(exist_ok=True)
    for path in (POLICIES, COPY_OF_POLICIES):
        path.write_text(list_of_policies(), encoding="utf-8")
    for rules, copy in RULES.items():
        copy.write_text(rules.read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    main()
