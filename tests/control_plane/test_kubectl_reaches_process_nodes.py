"""kubectl logs, exec and port-forward with `headgate node`, through a real API server."""

import contextlib
import fcntl
import hashlib
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import urllib.request
from pathlib import Path

import pytest

SERVER = """
import os, sys, time
from http.server import HTTPServer, BaseHTTPRequestHandler
print("first", flush=True)
print("second", flush=True)
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * int(self.path[1:] or 5))
    def do_POST(self):
        size = int(self.headers["content-length"])
        body = self.rfile.read(size)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
        print("got", size, flush=True)
    def log_message(self, *words): pass
HTTPServer((os.environ["POD_IP"], 8000), Handler).serve_forever()
"""


@pytest.fixture
def node(process_node):
    return process_node("reached", "10.244.67.0/24")


@pytest.fixture
def pod(cluster, namespace, node):
    """A running Pod of the node; returns kubectl's words that choose its namespace."""
    container = {
        "name": "engine",
        "image": "none",
        "command": ["python3", "-S", "-c", SERVER],
        "env": [{"name": "GREETING", "value": "hello"}],
        "workingDir": "/",
        "readinessProbe": {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "settings", "mountPath": "/none/settings"},
            {"name": "scratch", "mountPath": "/none/scratch"},
        ],
    }
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    spec = {"terminationGracePeriodSeconds": 1, "nodeName": node.name, "containers": [container]}
    spec["volumes"] = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    cluster.apply(settings | {"data": {"model": "llama"}}, manifest, namespace=namespace)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "-n", namespace, "--timeout=60s")
    return ("-n", namespace)


def start(cluster, *words, **options):
    """A kubectl that goes on."""
    command = [cluster.programs / "kubectl", "--kubeconfig", cluster.kubeconfig, *words]
    return subprocess.Popen(command, **options)


@contextlib.contextmanager
def forwarded(cluster, *words, port=8000):
    """The local port of a port-forward to the Pod."""
    command = ("port-forward", *words, "pod/web", f":{port}")
    with start(cluster, *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found, line + process.stderr.read()
        try:
            yield int(found[1])
        finally:
            process.kill()


def test_logs_are_read_with_every_option(cluster, pod):
    assert cluster.kubectl("logs", "web", *pod) == "first\nsecond\n"
    assert cluster.kubectl("logs", "web", "-c", "engine", "--tail=1", *pod) == "second\n"
    assert cluster.kubectl("logs", "web", "--limit-bytes=3", *pod) == "fir"
    assert cluster.kubectl("logs", "web", "--since=1h", *pod) == "first\nsecond\n"
    assert cluster.kubectl("logs", "web", "--since-time=2100-01-01T00:00:00Z", *pod) == ""
    assert re.fullmatch(r"20\S+Z second\n", cluster.kubectl("logs", "web", "--tail=1", "--timestamps", *pod))
    refused = cluster.kubectl("logs", "web", "--previous", *pod, fails=True)
    assert "previous terminated container 'engine' in pod 'web' not found" in refused


def test_logs_are_followed_until_the_container_ends(cluster, pod):
    options = {"stdout": subprocess.PIPE, "text": True}
    with start(cluster, "logs", "-f", "--tail=1", "web", *pod, **options) as following:
        assert following.stdout.readline() == "second\n"
        with forwarded(cluster, *pod) as port:
            url = f"http://127.0.0.1:{port}/"
            urllib.request.urlopen(url, data=b"12345", timeout=30).close()
        assert following.stdout.readline() == "got 5\n"
        cluster.kubectl("delete", "pod", "web", *pod)
        assert following.stdout.read() == ""
        assert following.wait(60) == 0


def test_the_log_before_a_restart_is_kept(cluster, pod, eventually):
    [status] = cluster.get("pod", "web", *pod)["status"]["containerStatuses"]
    os.kill(int(status["containerID"].removeprefix("process://")), signal.SIGKILL)
    eventually(lambda: cluster.get("pod", "web", *pod)["status"]["containerStatuses"][0]["restartCount"] == 1)
    assert cluster.kubectl("logs", "web", "--previous", *pod) == "first\nsecond\n"


def test_a_command_has_the_containers_environment(cluster, pod):
    """Its streams are apart, and its exit code is kubectl's."""
    script = "echo $GREETING $POD_NAME in $PWD; echo trouble >&2; exit 7"
    command = ("exec", "web", *pod, "--", "sh", "-c", script)
    with start(cluster, *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        output, errors = process.communicate(timeout=60)
    assert (output, process.returncode) == ("hello web in /\n", 7)
    assert errors.startswith("trouble\n")
    missing = cluster.kubectl("exec", "web", *pod, "--", "no-such-program", fails=True)
    assert "command 'no-such-program' is not found" in missing


def test_a_command_sees_the_volumes_of_its_container(cluster, pod, tmp_path):
    """Objects and shared directories are where the manifest mounts them, for kubectl cp as well."""
    assert cluster.kubectl("exec", "web", *pod, "--", "cat", "/none/settings/model") == "llama"
    refused = cluster.kubectl("exec", "web", *pod, "--", "touch", "/none/settings/new", fails=True)
    assert "Read-only file system" in refused
    (tmp_path / "file").write_text("content")
    cluster.kubectl("cp", tmp_path / "file", f"{pod[1]}/web:/none/scratch/file")
    assert cluster.kubectl("exec", "web", *pod, "--", "cat", "/none/scratch/file") == "content"
    server = cluster.get("pod", "web", *pod)["status"]["containerStatuses"][0]["containerID"]
    seen = Path("/proc", server.removeprefix("process://"), "root/none/scratch/file")
    assert seen.read_text() == "content"


def test_files_are_copied(cluster, pod, tmp_path):
    """kubectl cp runs tar on the node."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "here" / "file").write_text("content")
    cluster.kubectl("cp", tmp_path / "here" / "file", f"{pod[1]}/web:{tmp_path}/there/file")
    assert (tmp_path / "there" / "file").read_text() == "content"
    cluster.kubectl("cp", f"{pod[1]}/web:{tmp_path}/there/file", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "content"


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_large_input_and_output_arrive_complete(cluster, pod, websockets):
    """By both protocols that kubectl can speak."""
    data = os.urandom(5 << 20)
    process = start(
        *(cluster, "exec", "-i", "web", *pod, "--", "cat"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets},
    )
    with process:
        output, _ = process.communicate(data, timeout=120)
    assert process.returncode == 0
    assert hashlib.sha256(output).digest() == hashlib.sha256(data).digest()


def test_a_command_gets_a_terminal(cluster, pod):
    """With the size of the user's, and Ctrl-C for the command."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    sized = "until [ \"$(stty size)\" = '33 101' ]; do sleep 0.1; done"
    # Short sleeps: a shell that is about to start a long one when Ctrl-C arrives waits for its end.
    script = f"{sized}; tty; read x; echo got $x; while :; do sleep 0.1; done"
    options = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "start_new_session": True}
    with start(cluster, "exec", "-it", "web", *pod, "--", "sh", "-c", script, **options) as process:
        os.close(theirs)
        until(ours, b"/dev/pts/")
        os.write(ours, b"words\n")
        until(ours, b"got words")
        os.write(ours, b"\x03")
        assert process.wait(60) == 130
    os.close(ours)


def until(terminal, wanted):
    """Read a terminal until something appears."""
    shown = b""
    while wanted not in shown:
        shown += os.read(terminal, 4096)


def test_a_command_ends_with_its_client_and_its_container(cluster, pod, eventually):
    command = ("exec", "web", *pod, "--", "sh", "-c", "sleep 1000 & echo $!; wait")
    options = {"stdout": subprocess.PIPE, "text": True}
    with start(cluster, *command, **options) as left, start(cluster, *command, **options) as other:
        processes = [Path("/proc", process.stdout.readline().strip()) for process in (left, other)]
        assert all(each.exists() for each in processes)
        left.kill()
        eventually(lambda: not processes[0].exists())
        assert processes[1].exists()
        cluster.kubectl("delete", "pod", "web", *pod)
        assert other.wait(60) == 137
        eventually(lambda: not processes[1].exists())


def test_connections_end_with_the_node(cluster, node, pod):
    """Followers get the whole log, and commands their exit code; a client that reads nothing gets no more."""
    pipe = {"stdout": subprocess.PIPE}
    command = ("sh", "-c", "trap '' TERM; sleep 1000 & echo $!; wait; wait")
    with contextlib.ExitStack() as running:
        following = running.enter_context(start(cluster, "logs", "-f", "web", *pod, **pipe))
        waiting = running.enter_context(start(cluster, "exec", "web", *pod, "--", *command, **pipe))
        stalled = running.enter_context(start(cluster, "exec", "web", *pod, "--", "yes", **pipe))
        port = running.enter_context(forwarded(cluster, *pod))
        idle = running.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert following.stdout.readline() == b"first\n"
        left = Path("/proc", waiting.stdout.readline().decode().strip())
        assert (left.exists(), stalled.stdout.read(2)) == (True, b"y\n")
        node.process.terminate()
        assert node.process.wait(60) == 0
        assert not left.exists()
        idle.settimeout(60)
        assert idle.recv(1) == b""
        stalled.stdout.close()
        assert (following.wait(60), waiting.wait(60)) == (0, 137)
        assert following.stdout.read() == b"second\n"
        assert stalled.wait(60) != 0


def test_ports_are_forwarded(cluster, pod):
    """Several connections, large bodies in both directions, and a port that nobody listens on."""
    with forwarded(cluster, *pod) as port:
        url = f"http://127.0.0.1:{port}/"
        with contextlib.ExitStack() as open_connections:
            idle = [
                open_connections.enter_context(socket.create_connection(("127.0.0.1", port)))
                for _ in range(5)
            ]
            assert len(idle) == 5
        for _ in range(10):
            assert urllib.request.urlopen(url, timeout=60).read() == b"xxxxx"
        assert len(urllib.request.urlopen(f"{url}3000000", timeout=60).read()) == 3_000_000
        data = os.urandom(3 << 20)
        assert urllib.request.urlopen(url, data=data, timeout=60).read() == data
    with forwarded(cluster, *pod, port=8001) as port, pytest.raises(OSError, match="closed connection"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60)


def test_what_is_not_there_is_said(cluster, pod):
    attached = cluster.kubectl("attach", "web", *pod, fails=True)
    assert "use kubectl logs -f or kubectl exec" in attached


def test_the_api_server_forwards_to_node_and_pod(cluster, pod):
    assert cluster.kubectl("get", "--raw", "/api/v1/nodes/reached/proxy/healthz") == "ok"
    pods = cluster.kubectl("get", "--raw", "/api/v1/nodes/reached/proxy/pods")
    assert '"name":"web"' in pods
    path = f"/api/v1/namespaces/{pod[1]}/pods/web:8000/proxy/7"
    assert cluster.kubectl("get", "--raw", path) == "xxxxxxx"


def test_callers_need_an_identity_and_a_right(cluster, node, pod, eventually):
    """By token: without one, with an unknown one, without a right, and with it."""
    namespace = pod[1]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    rules = [{"apiGroups": [""], "resources": ["nodes/healthz", "nodes/proxy"], "verbs": ["get"]}]
    cluster.apply({**role, "metadata": {"name": "reads-nodes"}, "rules": rules})
    for account in ("reader", "stranger"):
        cluster.kubectl("create", "serviceaccount", account, *pod)
    to = f"--serviceaccount={namespace}:reader"
    cluster.kubectl("create", "clusterrolebinding", namespace, "--clusterrole=reads-nodes", to)
    tokens = {name: cluster.kubectl("create", "token", name, *pod).strip() for name in ("reader", "stranger")}
    log = f"/containerLogs/{namespace}/web/engine"
    # Not always 10250, which the node of another control plane may have.
    port = cluster.get("node", node.name)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    # The API server acts by a new binding a moment later, and a node remembers for a while that it refused.
    reader = f"system:serviceaccount:{namespace}:reader"
    eventually(lambda: all(may_get(cluster, reader, each) for each in ("healthz", "proxy")))
    assert [ask(port, log, token)[0] for token in ("", "unknown", tokens["stranger"])] == [401, 401, 403]
    refused = ask(port, "/healthz", tokens["stranger"])[1]
    assert f'user "system:serviceaccount:{namespace}:stranger" has no right to get nodes/healthz' in refused
    assert ask(port, "/healthz", tokens["reader"]) == (200, "ok")
    assert ask(port, log, tokens["reader"]) == (200, "first\nsecond\n")
    assert ask(port, f"/exec/{namespace}/web/engine?command=id&output=1", tokens["reader"])[0] == 403
    cluster.kubectl("delete", "clusterrole/reads-nodes", f"clusterrolebinding/{namespace}")


def may_get(cluster, user, subresource):
    """Whether the API server grants this of nodes."""
    attributes = {"verb": "get", "resource": "nodes", "subresource": subresource}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    review |= {"spec": {"user": user, "resourceAttributes": attributes}}
    reviewed = cluster.kubectl("create", "-o", "json", "-f", "-", text=json.dumps(review))
    return json.loads(reviewed)["status"].get("allowed", False)


def ask(port, path, token):
    """A request to the node itself."""
    command = ["curl", "-sk", "-w", "\\n%{http_code}", f"https://10.244.0.1:{port}{path}"]
    command += ["-H", f"Authorization: Bearer {token}"] if token else []
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_certificates_can_be_given(cluster, namespace, process_node, tmp_path):
    """The node's own, and the authorities of callers, instead of those of the API server."""
    key, certificate = tmp_path / "tls.key", tmp_path / "tls.crt"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=given"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    files = [f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"]
    process_node("trusting", "10.244.68.0/24", *files)
    assert cluster.kubectl("get", "--raw", "/api/v1/nodes/trusting/proxy/healthz") == "ok"
    process_node("wary", "10.244.69.0/24", f"--client-ca-file={certificate}")
    cluster.kubectl("get", "--raw", "/api/v1/nodes/wary/proxy/healthz", fails=True)
    assert "refused a client certificate" in (tmp_path / "wary.log").read_text()
