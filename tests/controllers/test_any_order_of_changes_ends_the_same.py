"""Whatever happens in whatever order, working on what was touched ends where a fresh start would."""

from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.controllers.assessment import status_of
from headgate.controllers.object_index import ObjectIndex

KINDS = (api.Pod, api.Secret, api.ModelServer, api.ModelRoute)
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


class Follower:
    """A status controller without a server: after each change it works on what was touched, at once."""

    def __init__(self, now: str) -> None:
        self.index = ObjectIndex()
        self.now = now
        self.statuses = {}

    def change(self, kind, key, obj) -> None:
        index = self.index
        puts = (index.set_pod, index.set_secret, index.set_server, index.set_route)
        put = dict(zip(KINDS, puts, strict=True))[kind]
        for subject in put(key, obj):
            if (found := self.index.get(subject)) is not None:
                self.statuses[subject] = status_of(found, self.index, self.now)
        if obj is None:
            self.statuses.pop((kind, key), None)
        self.index.validate()


@given(data=st.data())
def test_touched_subjects_are_all_that_changed(kit, data):
    """After any history of changes and deletions, every status is what it is with all objects at once."""
    follower, world = Follower(kit.now), {}
    for obj in data.draw(st.lists(objects(kit), max_size=12)):
        key = (type(obj), obj.metadata.key)
        follower.change(*key, obj)
        world[key] = obj
        if data.draw(st.booleans(), label="delete something"):
            gone = data.draw(st.sampled_from(sorted(world, key=str)))
            del world[gone]
            follower.change(*gone, None)
    fresh = kit.index_of(*world.values())
    expected = {
        key: status_of(obj, fresh, kit.now)
        for key, obj in world.items()
        if not isinstance(obj, api.Pod | api.Secret)
    }
    assert follower.statuses == expected


@given(data=st.data())
def test_the_order_of_arrival_does_not_matter(kit, data):
    """Pods before servers before routes, or the other way round, ends in the same statuses."""
    drawn = data.draw(st.lists(objects(kit), max_size=8))
    unique = list({(type(obj), obj.metadata.key): obj for obj in drawn}.values())
    ends = []
    for order in (unique, data.draw(st.permutations(unique))):
        follower = Follower(kit.now)
        for obj in order:
            follower.change(type(obj), obj.metadata.key, obj)
        ends.append(follower.statuses)
    assert ends[0] == ends[1]
