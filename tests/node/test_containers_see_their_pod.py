"""Environment and command line of a container, as Kubernetes would write them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.node import downward, environment
from headgate.node.references import Contents, Reference


def identity(port: int | None = None) -> downward.PodIdentity:
    metadata = api.ObjectMeta(name="p", namespace="ns", uid="u-1", labels={"app.kubernetes.io/name": "llm"})
    return downward.PodIdentity(api.Pod(metadata=metadata), "node-1", "127.64.0.9", "127.0.0.1", port)


def container(**fields) -> api.Container:
    return msgspec.convert({"name": "main", **fields}, api.Container)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(MISSING)", "$(MISSING)"),
        ("$A $", "$A $"),
        ("$(A", "$(A"),
    ],
)
def test_references_are_expanded(text, expected):
    """$(NAME) is replaced, $$ is a dollar, and what is unknown or no reference stays."""
    assert environment.expand(text, {"A": "1", "B": "2"}) == expected


def key_of(kind: str, name: str, key: str) -> dict[str, object]:
    return {"env": [{"name": "TOKEN", "valueFrom": {kind: {"name": name, "key": key}}}]}


@given(st.text(alphabet="$()AB x"))
def test_doubled_dollars_give_the_text_back(text):
    """A text with every dollar doubled expands to itself, whatever it looks like."""
    assert environment.expand(text.replace("$", "$$"), {"A": "1"}) == text


def test_fields_of_the_pod_reach_the_environment():
    """fieldRef gives the Pod's own fields, and later variables may refer to earlier ones."""
    paths = {
        "NAME": "metadata.name",
        "UID": "metadata.uid",
        "APP": "metadata.labels['app.kubernetes.io/name']",
        "NODE": "spec.nodeName",
        "IP": "status.podIP",
        "HOST": "status.hostIP",
    }
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()]
    env.append({"name": "URL", "value": "http://$(IP):8000"})
    got = environment.environment(container(env=env), identity(), {"HOME": "/home/me"}, {}).variables
    expected = {
        "NAME": "p",
        "UID": "u-1",
        "APP": "llm",
        "NODE": "node-1",
        "IP": "127.64.0.9",
        "HOST": "127.0.0.1",
    }
    assert expected.items() <= got.items()
    assert got["URL"] == "http://127.64.0.9:8000"
    assert got["HOME"] == "/home/me"


@pytest.mark.parametrize(("own", "expected"), [(None, "8000"), (40123, "40123")])
def test_address_and_port_are_always_there(own, expected):
    """POD_* need no declaration; POD_PORT is the Pod's own port where it has one, else its first."""
    spec = container(ports=[{"containerPort": 8000}])
    got = environment.environment(spec, identity(own), {}, {}).variables
    assert (got["POD_NAME"], got["POD_NAMESPACE"], got["POD_IP"]) == ("p", "ns", "127.64.0.9")
    assert got["POD_PORT"] == expected


def test_amounts_of_resources_reach_the_environment():
    """resourceFieldRef gives whole units, rounded up: of the divisor, or CPUs and bytes; without a limit, the
    node's amount, and without a request, the limit."""
    wanted = [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "96"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.memory"}, "1024"),
        ({"resource": "limits.ephemeral-storage"}, "0"),
        ({"resource": "limits.memory", "containerName": "other", "divisor": "1Gi"}, "3"),
    ]
    env = [
        {"name": f"V{index}", "valueFrom": {"resourceFieldRef": selector}}
        for index, (selector, _) in enumerate(wanted)
    ]
    resources = {"limits": {"cpu": "1500m", "memory": "100M"}, "requests": {"memory": "1Ki"}}
    main = container(env=env, resources=resources)
    pod = api.Pod(
        metadata=api.ObjectMeta(name="p", namespace="ns"),
        spec=api.PodSpec(
            containers=[
                main,
                msgspec.structs.replace(main, name="other", resources=api.Container(name="x").resources),
            ]
        ),
    )
    who = downward.PodIdentity(pod, "n", "127.64.0.9", "127.0.0.1", allocatable={"cpu": "8", "memory": "3Gi"})
    got = environment.environment(main, who, {}, {}).variables
    assert {name: got[name] for name in sorted(got) if name.startswith("V")} == {
        f"V{index}": expected for index, (_, expected) in enumerate(wanted)
    }


SETTINGS = Reference("ConfigMap", "settings")
CREDS = Reference("Secret", "creds")


def held(binary: dict[str, bytes] | None = None, **texts: str) -> Contents:
    encoded = {key: value.encode() for key, value in texts.items()}
    return Contents(encoded, encoded | (binary or {}))


def test_objects_reach_the_environment():
    """envFrom first, each source over the one before, then env, which may refer to all of them."""
    spec = container(
        envFrom=[
            {"configMapRef": {"name": "settings"}},
            {"prefix": "S_", "secretRef": {"name": "creds"}},
            {"configMapRef": {"name": "missing", "optional": True}},
        ],
        env=[
            {"name": "MODE", "value": "$(MODE)-$(S_user)"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "creds", "key": "user"}}},
            {
                "name": "NO",
                "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "x", "optional": True}},
            },
        ],
    )
    missing = Reference("ConfigMap", "missing")
    assert set(environment.references(spec)) == {SETTINGS, CREDS, missing}
    found = {
        SETTINGS: held({"blob": b"\0"}, MODE="fast", **{"1st": "x", "..": "y"}),
        CREDS: held(user="me"),
        missing: None,
    }
    got = environment.environment(spec, identity(), {"HOME": "/home/me"}, found)
    assert {
        "MODE": "fast-me",
        "S_user": "me",
        "KEY": "me",
        "HOME": "/home/me",
    }.items() <= got.variables.items()
    assert not {"NO", "blob", "1st", ".."} & got.variables.keys()
    assert got.skipped == {SETTINGS: ["..", "1st"]}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (key_of("secretKeyRef", "creds", "k"), r'env\[0\] TOKEN: Secret "creds" not found.*"?k'),
        (key_of("configMapKeyRef", "settings", "k"), r'TOKEN: key .k. not found in ConfigMap "settings"'),
        (key_of("configMapKeyRef", "settings", "nul"), "null byte"),
        ({"env": [{"name": "TOKEN", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}, "TOKEN.*spec.x"),
        (
            {"env": [{"name": "TOKEN", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]},
            "TOKEN.*limits.gpu",
        ),
        ({"env": [{"name": "TOKEN", "valueFrom": {}}]}, "TOKEN.*no source"),
        ({"envFrom": [{"secretRef": {"name": "creds"}}]}, r'envFrom\[0\]: Secret "creds" not found'),
    ],
)
def test_a_value_that_cannot_be_had_stops_the_container(spec, named):
    """It is an error that names the variable, the object and the key, never an empty value."""
    found = {SETTINGS: held(nul="\0"), CREDS: None}
    with pytest.raises(environment.ContainerConfigError, match=named):
        environment.environment(container(**spec), identity(), {}, found)
