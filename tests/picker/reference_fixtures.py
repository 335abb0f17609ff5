"""Objects and configurations of the acceptance cases for endpoint pickers."""

import re

import msgspec
from picker_world import NEW, completion, metadata

from headgate import api
from headgate.dataplane.settings import Scheduling

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
SCORERS = "queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer", "lora-affinity-scorer"
"""The plugins of the reference's own tests; each has weight 1."""


def with_plugins(*plugins):
    """The scheduling section with these plugins, by their types or with parameters."""
    config = {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [{"type": each} if isinstance(each, str) else each for each in plugins],
    }
    return Scheduling(content=config, allow_experimental_plugins=True)


def deleted(obj):
    found = msgspec.structs.replace(obj.metadata, deletion_timestamp="2026-01-01T00:01:00Z")
    return msgspec.structs.replace(obj, metadata=found)


def rewrite(name, age, model, **targets):
    """Weights of the names; without any weight, None."""
    match = {"matches": [{"model": {"value": model}}]} if model else {}
    made = [
        {"modelRewrite": each} | ({"weight": weight} if weight else {}) for each, weight in targets.items()
    ]
    spec = {"poolRef": {"name": "pool", "group": NEW}, "rules": [{**match, "targets": made}]}
    return msgspec.convert({"metadata": metadata(name, age), "spec": spec}, api.InferenceModelRewrite)


def pairs_of(pods):
    """These four Pods, of which two prefill and two decode."""
    found = []
    for each, role in zip(pods, ("prefill", "prefill", "decode", "decode"), strict=True):
        labels = {**each.metadata.labels, "llm-d.ai/role": role}
        found.append(
            msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, labels=labels))
        )
    return found


def sessions_of_pairs(deciders):
    """Filters that keep a session on its endpoints, one for each phase."""
    prefill = {"encodedEndpointHeaderConfig": {"header": "x-session-token-prefill"}, "profileName": "prefill"}
    found = with_plugins(
        {"type": "session-affinity-filter", "name": "decode-session"},
        {"type": "session-affinity-filter", "name": "prefill-session", "parameters": prefill},
        {"type": "prefix-based-pd-decider", "parameters": {"nonCachedTokens": 100}},
        {"type": "disagg-profile-handler", "parameters": {"deciders": deciders}},
    )
    found.content["schedulingProfiles"] = [
        {"name": phase, "plugins": [{"pluginRef": f"{phase}-session"}]} for phase in ("prefill", "decode")
    ]
    return found


def prompt(number):
    """Long, and cached nowhere."""
    return completion(prompt=f"{number} another long prompt " * 400)
