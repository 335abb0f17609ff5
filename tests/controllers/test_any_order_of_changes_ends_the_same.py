"""Whatever happens in whatever order, working on what was touched ends where a fresh start would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.controllers.assessment import status_of
from headgate.controllers.object_index import ObjectIndex

labels = st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2)
names = st.sampled_from(["a", "b"])
models = st.sampled_from(["m", "n", ""])
namespaces = st.sampled_from(["n", "o"])


def objects(kit):
    """Objects of a world so small that most of them have to do with each other."""
    return st.one_of(
        st.builds(
            lambda name, has, ready, ns: kit.pod(name, has, ready=ready, namespace=ns),
            st.sampled_from("pqr"),
            labels,
            st.booleans(),
            namespaces,
        ),
        st.builds(
            lambda name, wants, ns, authorities: kit.server(
                name, wants, namespace=ns, authorities=authorities
            ),
            names,
            labels,
            namespaces,
            st.sampled_from([None, "a", "b/key"]),
        ),
        st.builds(
            lambda name, targets, ns, model, adapters: kit.route(
                name, *[kit.rule(*each) for each in targets], namespace=ns, model=model, adapters=adapters
            ),
            names,
            st.lists(st.lists(names, max_size=2, unique=True), max_size=2),
            namespaces,
            models,
            st.lists(models, max_size=2),
        ),
        st.builds(
            lambda name, ns, keys: kit.secret(name, ns, **dict.fromkeys(keys, "no PEM")),
            names,
            namespaces,
            st.lists(st.sampled_from(["ca_crt", "key"]), max_size=2),
        ),
    )


def inference_objects(kit):
    """Another such world: pools of both versions, what names them, and what they name."""
    groups = st.sampled_from([kit.old, kit.new])
    label = st.sampled_from([{"x": "1"}, {"x": "1", "y": "1"}])
    return st.one_of(
        st.builds(lambda name, has: kit.pod(name, has), st.sampled_from("pq"), label),
        st.builds(lambda wants: kit.server("s", wants), label),
        st.builds(lambda model: kit.route("r", kit.rule("s"), model=model), models),
        st.builds(
            lambda name, wants, group, models, picker, authorities: kit.inference_pool(
                name, wants, group=group, models=models, picker=picker, authorities=authorities
            ),
            names,
            label,
            groups,
            st.sampled_from([None, "m", "n,m", "*"]),
            st.sampled_from([None, "epp"]),
            st.sampled_from([None, "s"]),
        ),
        st.builds(lambda keys: kit.secret("s", **dict.fromkeys(keys, "no PEM")), st.just(["ca_crt"])),
        st.builds(
            lambda name, model, pool, group, created: kit.inference_model(
                name, model, pool, group=group, created=created
            ),
            names,
            models,
            names,
            groups,
            st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
        ),
        st.builds(lambda pool, group: kit.objective("o", pool, group=group), names, groups),
        st.builds(lambda kind: kit.service("epp", kind=kind), st.sampled_from(["ClusterIP", "ExternalName"])),
    )


class Follower:
    """A status controller without a server: after each change it works on what was touched, at once."""

    def __init__(self, kit) -> None:
        self.index = ObjectIndex()
        self.put, self.now = kit.put, kit.now
        self.statuses = {}

    def change(self, kind, key, obj) -> None:
        for subject in self.put(self.index, kind, key, obj):
            if (found := self.index.get(subject)) is not None:
                self.statuses[subject] = status_of(found, self.index, self.now)
        if obj is None:
            self.statuses.pop((kind, key), None)
        self.index.validate()


@pytest.mark.parametrize("world", [objects, inference_objects])
@given(data=st.data())
def test_touched_subjects_are_all_that_changed(kit, world, data):
    """After any history of changes and deletions, every status is what it is with all objects at once."""
    follower, there = Follower(kit), {}
    for obj in data.draw(st.lists(world(kit), max_size=12)):
        key = (type(obj), obj.metadata.key)
        follower.change(*key, obj)
        there[key] = obj
        if data.draw(st.booleans(), label="delete something"):
            gone = data.draw(st.sampled_from(sorted(there, key=str)))
            del there[gone]
            follower.change(*gone, None)
    fresh = kit.index_of(*there.values())
    expected = {
        key: status_of(obj, fresh, kit.now)
        for key, obj in there.items()
        if not isinstance(obj, api.Pod | api.Secret | api.Service)
    }
    assert follower.statuses == expected


@pytest.mark.parametrize("world", [objects, inference_objects])
@given(data=st.data())
def test_the_order_of_arrival_does_not_matter(kit, world, data):
    """Pods before pools before routes, or the other way round, ends in the same statuses."""
    drawn = data.draw(st.lists(world(kit), max_size=8))
    unique = list({(type(obj), obj.metadata.key): obj for obj in drawn}.values())
    ends = []
    for order in (unique, data.draw(st.permutations(unique))):
        follower = Follower(kit)
        for obj in order:
            follower.change(type(obj), obj.metadata.key, obj)
        ends.append(follower.statuses)
    assert ends[0] == ends[1]
