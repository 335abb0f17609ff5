"""The whole process: objects of an API server, gRPC with TLS, health, metrics, and its end."""

import asyncio
import contextlib
import datetime
import re
import socket
import ssl

import grpc
import httpx2
import msgspec
import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from picker_world import Proxy, completion, pool

from headgate import api, apiserver, cluster, extproc, loop_turns, rpc
from headgate.dataplane.settings import Kubernetes
from headgate.picker.body_router import RouterSettings
from headgate.picker.certificates import CertificateError, Certificates
from headgate.picker.router_service import run_router
from headgate.picker.service import HEALTH_NAMES, run_picker
from headgate.picker.settings import Listening, PickerSettings, PoolNames
from headgate.serving import certificates

SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"
PATIENCE_S = 30.0


async def until(condition):
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running(tmp_path, metrics_port, **settings):
    """A picker for the pool "pool", the client of its API server, and what ends it."""
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
        asyncio.TaskGroup() as tasks,
    ):
        listening = Listening(
            host="127.0.0.1", grpc_port=0, health_port=0, metrics_port=metrics_port, **settings
        )
        chosen = PickerSettings(
            pools=PoolNames(names=("pool",)),
            listening=listening,
            kubernetes=Kubernetes(kubeconfig=str(server.kubeconfig)),
        )
        stop = asyncio.Event()
        ready = asyncio.get_running_loop().create_future()
        service = tasks.create_task(run_picker(chosen, stop, ready.set_result))
        yield await ready, client, stop
        stop.set()
        await service


async def health(channel, name=""):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    data = name.encode()
    return await check(b"\x0a" + bytes((len(data),)) + data if data else b"")


async def test_b55_health_says_whether_requests_may_come(tmp_path, unused_tcp_port):
    """B55: every service is NOT_SERVING until the pool is there, and again while it drains. Watch is not
    implemented."""
    async with running(tmp_path, unused_tcp_port, is_secure=False) as (servers, client, stop):  # noqa: SIM117
        async with (
            grpc.aio.insecure_channel(f"127.0.0.1:{servers.health_port}") as plain,
            grpc.aio.insecure_channel(f"127.0.0.1:{servers.port}") as main,
        ):
            for name in (*HEALTH_NAMES, "any other"):
                assert await health(plain, name) == NOT_SERVING
            await client.create(pool())

            async def serves():
                return await health(plain) == SERVING

            await until(serves)
            for channel in (plain, main):
                for name in (*HEALTH_NAMES, "any other"):
                    assert await health(channel, name) == SERVING
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async for _ in plain.unary_stream("/grpc.health.v1.Health/Watch")(b""):
                    pass
            assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
            # A request that goes on keeps it from ending.
            call = main.stream_stream(extproc.PATH)()
            message = pb.ProcessingRequest()
            message.request_headers.end_of_stream = False
            await call.write(message.SerializeToString())

            async def is_in_progress():
                return servers.processing.statistics()["calls_in_progress"] == 1

            await until(is_in_progress)
            stop.set()

            async def drains():
                return await health(plain) == NOT_SERVING

            await until(drains)
            await call.done_writing()


async def test_a_pool_that_does_not_exist_is_logged(tmp_path, unused_tcp_port, caplog):
    """Once, with the names of those that do; and when it comes. Until then the picker is not ready."""
    caplog.set_level("INFO", "headgate.picker.shell")
    async with running(tmp_path, unused_tcp_port, is_secure=False) as (servers, client, _):
        assert not servers.is_ready
        assert caplog.messages == [
            "not ready: there is no InferencePool default/pool of group inference.networking.k8s.io; the "
            "namespace has no pools"
        ]
        await client.create(pool("other"))

        async def is_named():
            return caplog.messages[-1].endswith("the namespace has InferencePool default/other")

        await until(is_named)
        await client.create(pool())

        async def is_ready():
            return servers.is_ready

        await until(is_ready)
        assert caplog.messages[2:] == ["all pools exist now"]


@pytest.mark.parametrize("flag", ["--grpc-port", "--grpc-health-port"])
async def test_a_port_in_use_is_named_with_its_flag(tmp_path, unused_tcp_port, flag):
    """Of pickers and body routers."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        chosen = {"grpc_port": 0, "health_port": 0}
        chosen["grpc_port" if flag == "--grpc-port" else "health_port"] = port
        listening = Listening(host="127.0.0.1", metrics_port=0, is_secure=False, **chosen)
        settings = PickerSettings(pools=PoolNames(), listening=listening)
        told = f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another with {flag}"
        with pytest.raises(OSError, match=re.escape(told)):
            await run_picker(settings, asyncio.Event(), lambda _: None)
        with pytest.raises(OSError, match=re.escape(told)):
            await run_router(RouterSettings(), listening, None, None, asyncio.Event(), lambda _: None)


async def test_pods_are_picked_from_the_api_server(tmp_path, unused_tcp_port):
    """With TLS and a certificate of its own, as without any flags; /readyz and /metrics say so."""
    async with running(tmp_path, unused_tcp_port) as (servers, client, _):
        await client.create(pool())
        await client.create(
            msgspec.convert(
                {
                    "metadata": {"name": "pod-7", "namespace": "default", "labels": {"app": "pool"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
                api.Pod,
            )
        )
        status = {"podIP": "192.168.1.7", "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch_status(api.Pod, "pod-7", "default", status)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{unused_tcp_port}") as http:

            async def has_it():
                return (
                    'headgate_picker_pool_endpoints{pool="InferencePool/default/pool"} 1.0'
                    in (await http.get("/metrics")).text
                )

            await until(has_it)
            assert (await http.get("/readyz")).status_code == 200
            found = (await http.get("/debug/endpoints")).json()
        assert [each["address"] for each in found["InferencePool/default/pool"]] == ["192.168.1.7:8000"]
        # Proxies do not verify it: their connection is encrypted, and nothing more.
        turns = loop_turns.Turns(asyncio.get_running_loop())
        tls = rpc.tls.for_client(None)
        connection = await rpc.connect("127.0.0.1", servers.port, turns, tls=tls)
        proxy = Proxy(connection)
        await proxy.ask(completion())
        assert proxy.told.address == "192.168.1.7:8000"
        connection.close()


def _certificate_of(port):
    return ssl.get_server_certificate(("127.0.0.1", port))


def write(folder, name):
    now = datetime.datetime.now(datetime.UTC)
    issued = certificates.issue(name, [name, "127.0.0.1"], now)
    (folder / "tls.crt").write_bytes(issued.cert)
    (folder / "tls.key").write_bytes(issued.key)
    return issued


async def test_certificates_are_read_again(tmp_path, monkeypatch):
    """A new one is used for new connections; one that is half written is not."""
    first = write(tmp_path, "first")
    tls = Certificates(Listening(cert_path=str(tmp_path), reload_s=0.01))

    async def handler(reader, writer):
        writer.close()

    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=tls.context)
    port = server.sockets[0].getsockname()[1]
    following = asyncio.create_task(tls.follow())

    async def serves(issued):
        pem = await asyncio.to_thread(_certificate_of, port)
        return pem.strip() == issued.cert.decode().strip()

    assert await serves(first)
    (tmp_path / "tls.crt").write_bytes(b"half")
    await asyncio.sleep(0.05)
    assert await serves(first)
    second = write(tmp_path, "second")
    await until(lambda: serves(second))
    following.cancel()
    server.close()
    await server.wait_closed()


def test_certificates_that_cannot_be_used_are_told(tmp_path):
    """With the file."""
    with pytest.raises(CertificateError, match=r"tls\.crt: No such file"):
        Certificates(Listening(cert_path=str(tmp_path)))
    (tmp_path / "tls.crt").write_text("x")
    (tmp_path / "tls.key").write_text("x")
    with pytest.raises(CertificateError, match="are not a certificate in PEM"):
        Certificates(Listening(cert_path=str(tmp_path)))


@pytest.mark.parametrize(
    ("settings", "client", "ends_in"),
    [
        ({"tls_min_version": "1.3"}, {"maximum_version": ssl.TLSVersion.TLSv1_2}, None),
        ({"tls_min_version": "1.3"}, {}, "TLSv1.3"),
        (
            {"tls_ciphers": ("ECDHE-ECDSA-AES256-GCM-SHA384",)},
            {"maximum_version": ssl.TLSVersion.TLSv1_2},
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
    ],
)
async def test_versions_and_ciphers_of_tls(settings, client, ends_in):
    """Clients that have nothing in common with the settings are refused."""
    tls = Certificates(Listening(**settings))
    context = rpc.tls.for_client(None)
    for name, value in client.items():
        setattr(context, name, value)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls.context)
    port = server.sockets[0].getsockname()[1]
    try:
        if ends_in is None:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", port, ssl=context)
            return
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        agreed = writer.get_extra_info("ssl_object")
        assert ends_in in (agreed.version(), agreed.cipher()[0])
        writer.close()
    finally:
        server.close()
