"""ModelServer: warnings."""

from __future__ import annotations

from headgate.api import marks
from headgate.api.admission import durations, names, selectors
from headgate.api.admission.annotations import warn_of_own, warn_of_start, warn_of_tls, warn_of_weights
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View

__all__ = ["check"]


def check(server: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a ModelServer."""
    spec = server["spec"]
    selector = spec["workloadSelector"]
    labels = selector["matchLabels"]
    selectors.warn_of_labels(labels, found)
    if selector["pdGroup"].present:
        _check_roles(selector["pdGroup"], labels.texts, found)
    elif spec["kvConnector"].present:
        told = "has no effect without workloadSelector.pdGroup: no KV cache is handed over"
        found.warn(spec["kvConnector"], told)
    _check_traffic(spec["trafficPolicy"], found)
    annotations = server.at("metadata.annotations")
    _warn_of_annotations(annotations, selector["pdGroup"], found)
    is_https = spec["workloadPort"].get("protocol") == "https"
    warn_of_tls(annotations, is_https=is_https, needed="workloadPort.protocol https", found=found)
    selectors.warn_of_overlaps("networking.volcano.sh", "ModelServer", server, labels, others, found)


def _check_roles(group: FieldCursor, common: dict[str, str], found: Findings) -> None:
    if not isinstance(group.value, dict):
        return
    key, prefill, decode = group["groupKey"], group["prefillLabels"], group["decodeLabels"]
    if key.text and any(names.qualified_name(key.text)):
        found.warn(key, f'"{key.text}" is not the key of a label: no Pods can be paired')
    for labels, role in ((prefill, "prefill"), (decode, "decode")):
        selectors.warn_of_labels(labels, found)
        for name, place in labels.entries():
            if name in common and place.text not in (None, common[name]):
                told = f'no Pod can {role}: matchLabels wants {name}="{common[name]}" of all Pods'
                found.warn(place, told)
    _warn_of_double_roles(prefill, decode, found)


def _warn_of_double_roles(prefill: FieldCursor, decode: FieldCursor, found: Findings) -> None:
    if not prefill.texts or not decode.texts:
        return
    if prefill.texts.items() <= decode.texts.items():
        found.warn(prefill, "every Pod that has the decodeLabels has these too: it would get both roles")
    elif decode.texts.items() <= prefill.texts.items():
        found.warn(decode, "every Pod that has the prefillLabels has these too: it would get both roles")


def _warn_of_annotations(annotations: FieldCursor, pairs: FieldCursor, found: Findings) -> None:
    """Warn of Headgate's annotations that are unknown or have no effect here."""
    warn_of_own("ModelServers", annotations, marks.OF_MODEL_SERVERS, found)
    warn_of_start(annotations, found)
    warn_of_weights(annotations, found)
    if marks.REMOTE_PREFILL_TOKENS in annotations.texts and not pairs.present:
        told = "has no effect without workloadSelector.pdGroup"
        found.warn(annotations.key(marks.REMOTE_PREFILL_TOKENS), told)


def _check_traffic(policy: FieldCursor, found: Findings) -> None:
    timeout, retry = policy["timeout"], policy["retry"]
    length = durations.nanoseconds(timeout)
    if length is not None and length <= 0:
        found.warn(timeout, f'"{timeout.text}" sets no limit: a timeout must be longer than 0s')
    attempts, interval = retry["attempts"], retry["retryInterval"]
    if attempts.integer is not None and attempts.integer < 0:
        found.warn(attempts, f"{attempts.integer} counts as 0: nothing is tried again")
    length = durations.nanoseconds(interval)
    if length is not None and length < 0:
        found.warn(interval, f'"{interval.text}" counts as 0s: the next attempt follows at once')
