"""Environment and command line of a container, as Kubernetes would write them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.node import environment


def identity(port: int | None = None) -> environment.PodIdentity:
    metadata = api.ObjectMeta(name="p", namespace="ns", uid="u-1", labels={"app.kubernetes.io/name": "llm"})
    return environment.PodIdentity(api.Pod(metadata=metadata), "node-1", "127.64.0.9", "127.0.0.1", port)


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
    got = environment.environment(container(env=env), identity(), {"HOME": "/home/me"})
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
    got = environment.environment(spec, identity(own), {})
    assert (got["POD_NAME"], got["POD_NAMESPACE"], got["POD_IP"]) == ("p", "ns", "127.64.0.9")
    assert got["POD_PORT"] == expected


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ({"secretKeyRef": {"name": "s", "key": "k"}}, "fieldRef"),
        ({"fieldRef": {"fieldPath": "spec.x"}}, "spec.x"),
    ],
)
def test_a_source_that_is_not_supported_stops_the_container(source, named):
    """A value that can't be had is an error with the variable's name, never an empty value."""
    with pytest.raises(environment.ContainerConfigError, match=f"TOKEN.*{named}"):
        environment.environment(container(env=[{"name": "TOKEN", "valueFrom": source}]), identity(), {})
