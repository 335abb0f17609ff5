"""Bodies as clients in Go send them: what they mean, and what becomes of bytes that mean nothing."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.apiserver import protobuf
from headgate.apiserver.protobuf import decoding
from headgate.apiserver.protobuf.tables import MESSAGES

PROTOBUF = {"content-type": protobuf.MEDIA_TYPE}

# What `kubectl create configmap c --from-literal=k=v` (1.33) sends.
CONFIG_MAP = bytes.fromhex(
    "6b3873000a0f0a0276311209436f6e6669674d6170121b0a110a016312001a0022002a00320038004200"
    "12060a016b1201761a002200"
)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    type_meta = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\0" + field(1, type_meta) + field(2, raw) + field(3, b"") + field(4, b"")


def encode(message: str, obj: dict[str, Any]) -> bytes:
    """The reference: an object of plain fields, maps, lists and messages by the same numbers."""
    out = b""
    for number, known in MESSAGES[message].items():
        if known.form == "inline":
            inner = {f.name for f in MESSAGES[known.type].values()}
            out += field(number, encode(known.type, {k: v for k, v in obj.items() if k in inner}))
            continue
        if known.name not in obj:
            continue
        value = obj[known.name]
        if known.form == "map":
            for key, item in value.items():
                out += field(number, field(1, key.encode()) + field(2, one(known.type, item)))
        else:
            for item in value if known.form == "list" else [value]:
                out += field(number, one(known.type, item))
    return out


def one(type_: str, value: Any) -> bytes | int:
    match type_:
        case "string":
            return str(value).encode()
        case "int" | "bool":
            return int(value)
        case "bytes":
            return base64.b64decode(value)
        case "Quantity":
            return field(1, value.encode())
        case "IntOrString":
            return field(1, 1) + field(3, value.encode()) if isinstance(value, str) else field(2, value)
    return encode(type_, value)


TEXT = st.text(min_size=1, max_size=20)
NUMBER = st.integers(-(2**31), 2**31 - 1).filter(bool)
ENV = st.fixed_dictionaries({"name": TEXT}, optional={"value": TEXT})
CONTAINER = st.fixed_dictionaries(
    {"name": TEXT},
    optional={
        "image": TEXT,
        "command": st.lists(TEXT, min_size=1, max_size=3),
        "env": st.lists(ENV, min_size=1, max_size=3),
        "tty": st.just(True),
        "resources": st.fixed_dictionaries(
            {"limits": st.dictionaries(TEXT, st.sampled_from(["1", "500m", "2Gi"]), min_size=1)}
        ),
        "livenessProbe": st.fixed_dictionaries(
            {"periodSeconds": NUMBER},
            optional={"httpGet": st.fixed_dictionaries({"port": NUMBER | TEXT}, optional={"path": TEXT})},
        ),
        "securityContext": st.fixed_dictionaries({"runAsNonRoot": st.booleans(), "runAsUser": st.just(0)}),
    },
)
VOLUME = st.fixed_dictionaries({"name": TEXT, "emptyDir": st.just({})})
DEPLOYMENT = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": TEXT}, optional={"labels": st.dictionaries(TEXT, st.text(max_size=9), min_size=1)}
        ),
        "spec": st.fixed_dictionaries(
            {
                "template": st.fixed_dictionaries(
                    {
                        "spec": st.fixed_dictionaries(
                            {"containers": st.lists(CONTAINER, min_size=1, max_size=3)},
                            optional={"volumes": st.lists(VOLUME, min_size=1, max_size=2)},
                        )
                    }
                )
            },
            optional={"replicas": st.integers(-5, 5)},
        ),
    }
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # of drawing, on a loaded machine
@given(DEPLOYMENT)
def test_every_deployment_comes_back_as_it_was(obj: dict[str, Any]) -> None:
    """Encoded by the numbers and decoded again, an object is the same: zero behind a pointer, and {} too."""
    read = protobuf.decode(envelope("apps/v1", "Deployment", encode("Deployment", obj)))
    assert read == {"apiVersion": "apps/v1", "kind": "Deployment"} | obj


@given(st.dictionaries(TEXT, st.binary()), st.dictionaries(TEXT, st.text()))
def test_bytes_are_base64_as_in_json(data: dict[str, bytes], texts: dict[str, str]) -> None:
    """A Secret's data arrives as bytes and is base64 in the object; its stringData stays text."""
    coded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    raw = encode("Secret", {"data": coded, "stringData": texts, "type": "Opaque"})
    read = protobuf.decode(envelope("v1", "Secret", raw))
    assert (read.get("data", {}), read.get("stringData", {})) == (coded, texts)


@given(st.binary(max_size=200), st.sampled_from(["ConfigMap", "Pod", "Event", "Service"]))
def test_no_bytes_do_more_than_be_refused(raw: bytes, kind: str) -> None:
    """Whatever comes is an object or a ProtobufError."""
    for body in (raw, b"k8s\0" + raw, envelope("v1", kind, raw)):
        try:
            assert isinstance(protobuf.decode(body), dict)
        except protobuf.ProtobufError as error:
            assert str(error)


@given(st.integers(0, len(CONFIG_MAP) - 1), st.integers(0, 255))
def test_a_damaged_body_is_an_object_or_refused(index: int, byte: int) -> None:
    """One byte of a real body changed never raises anything else."""
    damaged = bytearray(CONFIG_MAP)
    damaged[index] = byte
    try:
        protobuf.decode(bytes(damaged))
    except protobuf.ProtobufError as error:
        assert str(error)


def test_times_are_written_as_kubernetes_does() -> None:
    """A Time has whole seconds, a MicroTime six digits, and Go's zero time is no time."""
    lease = field(2, field(1, b"me") + field(3, field(1, 1_700_000_000) + field(2, 5_000)) + field(4, b""))
    read = protobuf.decode(envelope("coordination.k8s.io/v1", "Lease", lease))
    assert read["spec"] == {"holderIdentity": "me", "acquireTime": "2023-11-14T22:13:20.000005Z"}


def test_the_number_of_fields_and_the_depth_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bytes make a message, so a body of 3 MB could make a million objects."""
    monkeypatch.setattr(decoding, "MAX_FIELDS", 100)
    with pytest.raises(protobuf.ProtobufError, match="more than 100 fields"):
        protobuf.decode(envelope("v1", "Pod", field(2, field(2, b"") * 200)))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (field(200, b""), "ConfigMap has field 200"),
        (field(1, 5), "ConfigMap.metadata must have a length"),
        (field(4, b"x"), "ConfigMap.immutable must be a number"),
        (field(1, field(1, b"\xff")), "not UTF-8"),
        (b"\x0a\x7f", "after its message"),
        (b"\x80" * 11, "longer than 10 bytes"),
        (b"\x80", "ends within a number"),
        (b"\x0b", "wire type 3"),
        (b"\x00\x00", "field number 0"),
        (field(2, field(3, b"x")), "an entry of a map"),
        (field(1, field(8, field(1, 1 << 62))), "outside the years"),
    ],
)
async def test_what_cannot_be_read_says_where(
    client: httpx2.AsyncClient, config_maps: str, raw: bytes, why: str
) -> None:
    """A refusal is 400 and names message and field."""
    answer = await client.post(config_maps, content=envelope("v1", "ConfigMap", raw), headers=PROTOBUF)
    assert answer.status_code == 400
    assert why in answer.json()["message"]


async def test_what_kubectl_sends_is_created(client: httpx2.AsyncClient, config_maps: str) -> None:
    """The bytes of a real `kubectl create configmap` make a ConfigMap, and the answer is JSON."""
    accept = {"accept": f"{protobuf.MEDIA_TYPE},application/json"}
    answer = await client.post(config_maps, content=CONFIG_MAP, headers=PROTOBUF | accept)
    assert (answer.status_code, answer.headers["content-type"]) == (201, "application/json")
    assert (answer.json()["metadata"]["name"], answer.json()["data"]) == ("c", {"k": "v"})


async def test_a_custom_kind_has_no_protobuf(client: httpx2.AsyncClient, widgets: str) -> None:
    """As in Kubernetes, custom kinds are JSON or YAML only."""
    body = envelope("test.example/v1", "Widget", b"")
    answer = await client.post(widgets, content=body, headers=PROTOBUF)
    assert answer.status_code == 415
    assert "accepted media types include: application/json, application/yaml" in answer.json()["message"]


async def test_who_takes_protobuf_alone_gets_406(client: httpx2.AsyncClient, config_maps: str) -> None:
    """There are no protobuf answers, and the refusal says what there is."""
    answer = await client.get(config_maps, headers={"accept": protobuf.MEDIA_TYPE})
    assert (answer.status_code, answer.json()["reason"]) == (406, "NotAcceptable")
    assert answer.json()["message"].endswith("accepted: application/json, application/yaml")


async def test_delete_options_are_read(client: httpx2.AsyncClient, config_maps: str) -> None:
    """A typed client in Go sends its DeleteOptions as protobuf too."""
    await client.post(config_maps, json={"metadata": {"name": "d"}})
    wrong = envelope("v1", "DeleteOptions", field(2, field(1, b"other")))
    assert (
        await client.request("DELETE", f"{config_maps}/d", content=wrong, headers=PROTOBUF)
    ).status_code == 409
