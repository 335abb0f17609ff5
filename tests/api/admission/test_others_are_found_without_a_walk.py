"""The index of other objects: what is found is right, and costs the same among thousands."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api import ObjectKey, admission
from headgate.api.admission import index_keys
from headgate.kubeschema.structural import FieldError

GROUP = "networking.volcano.sh"


def route(name: str, model: str, adapters: list[str], created: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": name, "namespace": "n", "creationTimestamp": created},
        "spec": {"modelName": model, "loraAdapters": adapters},
    }


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["x", "y", ""]),
        st.lists(st.sampled_from("xyz"), max_size=3),
        st.sampled_from(["1", "2"]),
        st.booleans(),
    ),
    max_size=20,
)


@settings(max_examples=80, deadline=None)
@given(CHANGES)
def test_any_history_ends_at_what_is_there(changes: Any) -> None:
    """After any changes the index finds exactly the objects that there are, the oldest first."""
    index = admission.Index()
    there: dict[str, tuple[str, str, list[str]]] = {}
    for name, model, adapters, created, is_deleted in changes:
        if is_deleted:
            there.pop(name, None)
            index.remove(GROUP, "ModelRoute", ObjectKey("n", name))
        else:
            there[name] = (created, model, adapters)
            index.put(route(name, model, adapters, created))
        index.validate()
    for wanted in "xyz":
        models = [filed.name for filed in index.find(admission.IndexKey(index_keys.MODEL, (wanted,)))]
        assert models == [n for _, n in sorted((c, n) for n, (c, m, _) in there.items() if m == wanted)]
        adapters = [filed.name for filed in index.find(admission.IndexKey(index_keys.ADAPTER, (wanted,)))]
        assert adapters == [n for _, n in sorted((c, n) for n, (c, _, a) in there.items() if wanted in a)]
    assert index.statistics()["objects"] == sum(bool(m or a) for _, m, a in there.values())


class Counting(admission.Gathered):
    """Counts what is asked of the other objects."""

    asked = 0

    def get(self, group: str, kind: str, key: ObjectKey) -> dict[str, Any] | None:
        self.asked += 1
        return super().get(group, kind, key)


def test_a_route_among_thousands_asks_for_few() -> None:
    """Three thousand routes for one name and for its adapters: a handful are looked at."""
    crowd = Counting(route(f"r{number}", "m", ["a"], "1") for number in range(3000))
    found = admission.check(route("new", "m", ["b", "a"], "2"), None, crowd)
    assert crowd.asked < 10
    assert len(found.warnings) < 10


def test_manifests_stand_before_what_a_cluster_has() -> None:
    """A set of files is judged as if it were applied already."""
    cluster = admission.Gathered([route("old", "m", [], "1"), route("same", "m", [], "1")])
    mine = admission.Gathered([route("same", "other", [], "")], cluster)
    key = ObjectKey("n", "same")
    same = mine.get(GROUP, "ModelRoute", key)
    assert same is not None
    assert same["spec"]["modelName"] == "other"
    assert mine.get(GROUP, "ModelRoute", ObjectKey("n", "old")) is not None
    assert [filed.name for filed in mine.filed(admission.IndexKey(index_keys.MODEL, ("m",)))] == ["old"]
    assert [filed.name for filed in mine.filed(admission.IndexKey(index_keys.MODEL, ("other",)))] == ["same"]


def test_errors_of_schema_and_rules_are_told_once() -> None:
    """For kinds of Kubernetes its own words are kept, for all others those of the schema."""
    schema = [
        FieldError("FieldValueInvalid", "spec.a", "spec.a in body should be more", 1),
        FieldError("FieldValueRequired", "spec.b", "", None),
    ]
    rules = [
        FieldError("FieldValueInvalid", "spec.a", "must be more", 1),
        FieldError("FieldValueRequired", "spec.b", "", None),
        FieldError("FieldValueInvalid", "metadata.name", "must be short", "n"),
    ]
    fields = [error.message() for error in admission.merged(schema, rules)]
    assert fields == [
        'metadata.name: Invalid value: "n": must be short',
        "spec.a: Invalid value: 1: spec.a in body should be more",
        "spec.b: Required value",
    ]
    assert [error.detail for error in admission.merged(schema, rules, prefer_rules=True)] == [
        "must be short",
        "",
        "must be more",
    ]
