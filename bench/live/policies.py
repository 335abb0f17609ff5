"""Formulas of other routers in the gateway's own configuration, and its default policy.

All of them pick in the same gateway, so that only the choice differs: its ledger, prefix index and engine
readings take the place of their own producers.
"""

from __future__ import annotations

from pathlib import Path

from live.engines import PREFILL_TOKENS_PER_S

EXAMPLES = Path(__file__).parents[2] / "examples" / "scheduling"
OURS = "headgate"

_AFFINITY = f"""\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-affinity-filter
  parameters: {{peakPrefillThroughput: {PREFILL_TOKENS_PER_S}}}
- type: token-load-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: prefix-cache-affinity-filter
  - pluginRef: token-load-scorer
"""
_TOKEN_LOAD = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: token-load-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: token-load-scorer
"""
FILES = {
    "llm-d affinity + token load": _AFFINITY,
    "llm-d token load": _TOKEN_LOAD,
    "llm-d 2:2:3": (EXAMPLES / "picker.yaml").read_text(),
    "Kthena default": (EXAMPLES / "kthena.yaml").read_text(),
}
"""The configuration of each, for `--scheduling-config-file`."""
NAMES = {"least request": "least-request"}
"""The name of each, for `--scheduling-policy`."""
POLICIES = (OURS, *FILES, *NAMES)


def flags(policy: str, folder: Path) -> tuple[str, ...]:
    """Flags of the gateway; a configuration file is written to the folder."""
    if policy in FILES:
        file = folder / "scheduling.yaml"
        file.write_text(FILES[policy])
        return "--scheduling-config-file", str(file)
    return ("--scheduling-policy", NAMES[policy]) if policy in NAMES else ()
