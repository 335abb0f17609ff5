"""TLS endpoints are verified as their ModelServer or InferencePool requires, and nothing less."""

import base64
import datetime
import ipaddress
import ssl

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headgate import api, routing
from headgate.api import gie_v1, gie_v1alpha1

pytestmark = pytest.mark.every_loop

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates; or one that signs itself, as `openssl req -x509` makes it."""

    def __init__(self, name):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self.name, self.key, NOW - DAY, NOW + DAY)
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        self.certificate = builder.add_extension(constraint, critical=True).sign(self.key, hashes.SHA256())

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def _builder(self, subject, key, since, until):
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(since)
            .not_valid_after(until)
        )

    def context(self, directory, *names, until=NOW + DAY):
        """The context of a server with a certificate for these names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "engine")])
        builder = self._builder(subject, key, NOW - 5 * DAY, until)
        builder = builder.add_extension(x509.SubjectAlternativeName([*map(_name, names)]), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        path = directory / "server.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def _name(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


OURS, OTHER = Authority("ours"), Authority("other")
ADDRESS = "127.0.0.1"
CA = {"headgate.dev/tls-ca": "engines"}
NAMED = {**CA, "headgate.dev/tls-server-name": "engine.pool.example"}
INSECURE = {"headgate.dev/tls-insecure": "true"}


def secret(data, name="engines"):
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return api.Secret(metadata=api.ObjectMeta(name=name, namespace="default"), data=encoded)


def snapshot(endpoint, annotations, *secrets, protocol="https"):
    """The model "m", served by one Pod at the endpoint."""
    meta = {"namespace": "default"}
    server = {
        "metadata": {"name": "pool", **meta, "annotations": annotations},
        "spec": {
            "inferenceEngine": "vLLM",
            "workloadSelector": {"matchLabels": {"app": "engine"}},
            "workloadPort": {"port": endpoint.port, "protocol": protocol},
        },
    }
    rules = [{"targetModels": [{"modelServerName": "pool"}]}]
    route = {"metadata": {"name": "r", **meta}, "spec": {"modelName": "m", "rules": rules}}
    return routing.translate(
        [msgspec.convert(route, api.ModelRoute)], [msgspec.convert(server, api.ModelServer)], [POD], secrets
    )


POD = msgspec.convert(
    {
        "metadata": {"name": "p", "namespace": "default", "labels": {"app": "engine"}},
        "status": {"podIP": ADDRESS, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    api.Pod,
)


def snapshot_of_pool(kind, endpoint, annotations, *secrets):
    """The same Pod in an InferencePool, which has "m" in its annotation."""
    labels = {"app": "engine"}
    spec = {"selector": {"matchLabels": labels}, "targetPorts": [{"number": endpoint.port}]}
    if kind is gie_v1alpha1.InferencePool:
        spec = {"selector": labels, "targetPortNumber": endpoint.port}
    notes = {"headgate.dev/models": "m", **annotations}
    pool = {"metadata": {"name": "pool", "namespace": "default", "annotations": notes}, "spec": spec}
    inference = routing.InferenceObjects(pools=[msgspec.convert(pool, kind)])
    return routing.translate([], [], [POD], secrets, inference)


OUR_SECRET = secret({"ca.crt": OURS.pem, "other.pem": OTHER.pem, "both": OURS.pem + OTHER.pem})
CASES = {
    "our authority": (CA, OURS, (ADDRESS,), None),
    "a key of the Secret": ({"headgate.dev/tls-ca": "engines/other.pem"}, OTHER, (ADDRESS,), None),
    "one of two authorities": ({"headgate.dev/tls-ca": "engines/both"}, OTHER, (ADDRESS,), None),
    "a name": (NAMED, OURS, ("engine.pool.example",), None),
    "a wildcard": (NAMED, OURS, ("*.pool.example",), None),
    "an address as name": ({**CA, "headgate.dev/tls-server-name": "10.1.1.1"}, OURS, ("10.1.1.1",), None),
    "insecure": (INSECURE, OTHER, ("elsewhere.example",), None),
    "another authority": (CA, OTHER, (ADDRESS,), "unable to get local issuer certificate"),
    "the system's authorities": ({}, OURS, (ADDRESS,), "unable to get local issuer certificate"),
    "another address": (CA, OURS, ("10.1.1.1",), "not valid for '127.0.0.1'"),
    "another name": (NAMED, OURS, ("other.example", ADDRESS), "not valid for 'engine.pool.example'"),
}


async def test_a_long_prompt_arrives_whole(start_gateway, start_endpoint, tmp_path):
    """It is encrypted piece by piece, at the pace of the endpoint."""
    endpoint = await start_endpoint(b"served", tls=OURS.context(tmp_path, ADDRESS))
    gateway = await start_gateway()
    gateway.shell.use(snapshot(endpoint, CA, OUR_SECRET))
    body = {"model": "m", "prompt": "0123456789" * 500_000}
    response = await gateway.ask(body)
    assert (response.status, response.body) == (200, b"served")
    assert endpoint.calls[0].json == body


@pytest.mark.parametrize(("annotations", "authority", "names", "told"), CASES.values(), ids=CASES)
async def test_verification(start_gateway, start_endpoint, tmp_path, annotations, authority, names, told):
    """A request is sent only to an endpoint whose certificate is as its ModelServer asks; else it is told."""
    endpoint = await start_endpoint(b"served", tls=authority.context(tmp_path, *names))
    gateway = await start_gateway()
    gateway.shell.use(snapshot(endpoint, annotations, OUR_SECRET))
    response = await gateway.ask()
    if told is None:
        assert (response.status, response.body) == (200, b"served")
    else:
        assert (response.status, response.json["error"]["code"]) == (503, "endpoint_unreachable")
        assert told not in response.body.decode(), "that is for the log"
        assert told in gateway.log_lines()[0]
        assert not endpoint.calls


@pytest.mark.parametrize("authority", [OURS, OTHER])
async def test_metrics_are_read_of_verified_engines_only(
    start_gateway, start_endpoint, tmp_path, eventually, authority
):
    """What another says could draw all requests to it, or keep them away."""
    endpoint = await start_endpoint(
        b"vllm:num_requests_waiting 0\n", tls=authority.context(tmp_path, ADDRESS)
    )
    gateway = await start_gateway(settings={"engine_metrics_interval_s": 0.05})
    scraper = gateway.shell.scraper
    scraper.start()
    gateway.shell.use(snapshot(endpoint, CA, OUR_SECRET))
    await eventually(lambda: scraper.looks.pages["read" if authority is OURS else "failed"])
    (watch,) = scraper.watches()
    assert (watch.load.reading is not None) == (authority is OURS)
    assert ("not trusted" in watch.problem) == (authority is OTHER)


async def test_an_expired_certificate(start_gateway, start_endpoint, tmp_path):
    """It is not trusted, and insecure takes it all the same."""
    endpoint = await start_endpoint(b"served", tls=OURS.context(tmp_path, ADDRESS, until=NOW - DAY))
    gateway = await start_gateway()
    gateway.shell.use(snapshot(endpoint, CA, OUR_SECRET))
    assert (await gateway.ask()).json["error"]["code"] == "endpoint_unreachable"
    gateway.shell.use(snapshot(endpoint, INSECURE))
    assert (await gateway.ask()).body == b"served"
    assert "certificate has expired" in gateway.log_lines()[0]


async def test_an_endpoint_that_speaks_no_tls(start_gateway, start_endpoint):
    """It is told as such, and gets nothing in clear."""
    endpoint = await start_endpoint(b"served")
    gateway = await start_gateway(settings={"endpoints_connect_timeout_s": 0.2})
    gateway.shell.use(snapshot(endpoint, INSECURE))
    response = await gateway.ask()
    assert response.status == 503
    assert not endpoint.calls


async def test_the_name_is_asked_for(start_gateway, start_endpoint, tmp_path):
    """Of an endpoint that has several certificates the one for the server name is asked for (SNI)."""
    asked = []
    context = OURS.context(tmp_path, "engine.pool.example")
    context.sni_callback = lambda connection, name, context: asked.append(name)
    endpoint = await start_endpoint(b"served", tls=context)
    gateway = await start_gateway()
    gateway.shell.use(snapshot(endpoint, NAMED, OUR_SECRET))
    assert (await gateway.ask()).status == 200
    assert asked == ["engine.pool.example"]


async def test_another_secret_is_in_effect_at_once(start_gateway, start_endpoint, tmp_path):
    """No request goes over a connection that was verified by what the Secret had before."""
    endpoint = await start_endpoint(b"served", tls=OURS.context(tmp_path, ADDRESS))
    gateway = await start_gateway()
    for _ in range(2):
        gateway.shell.use(snapshot(endpoint, CA, OUR_SECRET))
        assert (await gateway.ask()).status == 200
    assert len(endpoint.connections) == 1
    gateway.shell.use(snapshot(endpoint, CA, secret({"ca.crt": OTHER.pem})))
    assert (await gateway.ask()).status == 503
    gateway.shell.use(snapshot(endpoint, CA, OUR_SECRET))
    assert (await gateway.ask()).status == 200
    assert gateway.shell.services.connections._contexts.statistics() == {"contexts": 1}


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_long_answers_come_whole_at_the_clients_pace(start_gateway, start_endpoint, tmp_path, framing):
    """However they are framed, and however small the buffers of a client that reads slowly."""
    body = b"0123456789abcdef" * 200_000
    head = b"HTTP/1.1 200 OK\r\n"

    def behave(call):
        if framing == "length":
            call.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        elif framing == "chunked":
            chunks = b"".join(
                b"%x\r\n%b\r\n" % (64_000, body[at : at + 64_000]) for at in range(0, len(body), 64_000)
            )
            call.write(head + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        else:
            call.write(head + b"\r\n" + body)
            call.close()

    endpoint = await start_endpoint(behave=behave, tls=OURS.context(tmp_path, ADDRESS))
    gateway = await start_gateway()
    gateway.shell.use(snapshot(endpoint, CA, OUR_SECRET))
    client = await gateway.connect(receive_buffer=4096)
    client.post()
    assert (await client.response()).body == body


WRONG = {
    "no Secret": (CA, [], "SecretNotFound", "there is no Secret default/engines"),
    "no such key": (
        CA,
        [secret({"a": b"", "b": b""})],
        "SecretKeyNotFound",
        "no key ca.crt (its keys: a, b)",
    ),
    "no certificate": (CA, [secret({"ca.crt": b"hello"})], "InvalidCertificate", "has no certificates"),
    "an empty key": (CA, [secret({"ca.crt": b""})], "InvalidCertificate", "has no certificates"),
    "no text": (CA, [secret({"ca.crt": b"\xff\xfe"})], "InvalidCertificate", "is not PEM text"),
    "yes": ({"headgate.dev/tls-insecure": "yes"}, [], "InvalidAnnotation", "'yes' is neither"),
    "both": ({**CA, **INSECURE}, [OUR_SECRET], "InvalidAnnotation", "contradicts headgate.dev/tls-ca"),
    "no Secret's name": (
        {"headgate.dev/tls-ca": "a,b=c"},
        [],
        "InvalidAnnotation",
        "is not the name of a Secret",
    ),
    "no name": ({"headgate.dev/tls-server-name": "a b"}, [], "InvalidAnnotation", "no DNS name"),
}


@pytest.mark.parametrize(("annotations", "secrets", "reason", "told"), WRONG.values(), ids=WRONG)
async def test_what_cannot_be_verified_is_not_used(
    start_gateway, start_endpoint, annotations, secrets, reason, told
):
    """Without what verifies it a pool has no endpoints, and both the problem and the log say why."""
    endpoint = await start_endpoint(b"served")
    made = snapshot(endpoint, annotations, *secrets)
    (problem,) = made.problems
    assert (problem.reason, told in problem.message) == (reason, True)
    assert problem.field.startswith("metadata.annotations[headgate.dev/tls-")
    gateway = await start_gateway()
    gateway.shell.use(made)
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (503, "no_ready_endpoint")
    assert told not in response.body.decode()
    assert told in gateway.log_lines()[0]
    # Nothing of it matters where no https is spoken.
    assert not snapshot(endpoint, annotations, *secrets, protocol="http").problems


HTTPS = {"headgate.dev/protocol": "https"}
OF_POOLS = {
    "our authority": ({**HTTPS, **CA}, 200, ""),
    "insecure": ({**HTTPS, **INSECURE}, 200, ""),
    "the system's authorities": (HTTPS, 503, "unable to get local issuer certificate"),
    "no Secret": ({**HTTPS, "headgate.dev/tls-ca": "none"}, 503, "there is no Secret default/none"),
    "both": ({**HTTPS, **CA, **INSECURE}, 503, "contradicts headgate.dev/tls-ca"),
    "no protocol": ({"headgate.dev/protocol": "h3", **CA}, 503, "'h3' is neither http nor https"),
}


@pytest.mark.parametrize("kind", [gie_v1.InferencePool, gie_v1alpha1.InferencePool])
@pytest.mark.parametrize(("annotations", "status", "told"), OF_POOLS.values(), ids=OF_POOLS)
async def test_inference_pools_ask_the_same(
    start_gateway, start_endpoint, tmp_path, kind, annotations, status, told
):
    """By the same annotations, and by one that says that https is spoken at all."""
    endpoint = await start_endpoint(b"served", tls=OURS.context(tmp_path, ADDRESS))
    gateway = await start_gateway()
    made = snapshot_of_pool(kind, endpoint, annotations, OUR_SECRET)
    gateway.shell.use(made)
    response = await gateway.ask()
    assert (response.status, len(endpoint.calls)) == (status, 1 if status == 200 else 0)
    if told:
        assert told in gateway.log_lines()[0]
