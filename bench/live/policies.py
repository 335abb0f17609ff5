"""Formulas of other routers as the gateway's own configuration has them, beside its default policy.

All of them pick in the same gateway, so that nothing differs but the choice: its ledger, its index of
prefixes and its reading of engines are what their producers are there.
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
"""What each is in a file for `--scheduling-config-file`."""
NAMES = {"least request": "least-request"}
"""What each is for `--scheduling-policy`."""
POLICIES = (OURS, *FILES, *NAMES)


def flags(policy: str, folder: Path) -> tuple[str, ...]:
    """What the gateway is started with; a file is written into the folder."""
    if policy in FILES:
        file = folder / "scheduling.yaml"
        file.write_text(FILES[policy])
        return "--scheduling-config-file", str(file)
    return ("--scheduling-policy", NAMES[policy]) if policy in NAMES else ()
