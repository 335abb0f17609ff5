"""What containers of a process node get from a real cluster: tokens, objects, claims."""

import base64
import json

import pytest

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}}


@pytest.fixture
def pod(process_node, cluster, namespace):
    """Makes a Pod on a process node, which runs a shell script."""
    name = process_node("containers", "10.244.68.0/24").name

    def make(script, *mounts, volumes=(), **fields):
        container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
        container |= {"volumeMounts": list(mounts)} | fields
        spec = {"nodeSelector": {"kubernetes.io/hostname": name}, "terminationGracePeriodSeconds": 1}
        spec |= {"containers": [container], "volumes": list(volumes)}
        cluster.apply(POD | {"spec": spec}, namespace=namespace)

    return make


def claims_of(token: str) -> dict:
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def test_a_program_acts_as_its_account(cluster, namespace, pod, eventually, tmp_path):
    """The volume that the cluster adds to every Pod has a token of the account, valid for this Pod alone; a
    token for another audience is not valid at the API server."""
    own = "/var/run/secrets/kubernetes.io/serviceaccount"
    token = {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}}
    volume = {"name": "vault", "projected": {"sources": [token]}}
    out = {"name": "out", "hostPath": {"path": str(tmp_path)}}
    mounts = [{"name": "vault", "mountPath": "/none/vault"}, {"name": "out", "mountPath": "/none/out"}]
    script = (
        "echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT > /none/out/server; "
        f"cp {own}/* /none/out; cp /none/vault/token /none/out/vault; echo done > /none/out/done; sleep 999"
    )
    pod(script, *mounts, volumes=[volume, out])
    eventually(lambda: (tmp_path / "done").exists())
    assert (tmp_path / "namespace").read_text() == namespace
    assert "BEGIN CERTIFICATE" in (tmp_path / "ca.crt").read_text()
    own_token, other = (tmp_path / "token").read_text(), (tmp_path / "vault").read_text()
    assert f"https://{(tmp_path / 'server').read_text().strip()}" == cluster.server
    uid = cluster.get("pod", "one", "-n", namespace)["metadata"]["uid"]
    assert claims_of(own_token)["kubernetes.io"]["pod"] == {"name": "one", "uid": uid}
    assert claims_of(other)["aud"] == ["vault"]
    assert claims_of(other)["exp"] - claims_of(other)["iat"] == 600
    review = "/apis/authentication.k8s.io/v1/"
    assert cluster.request(review, own_token).status_code == 200
    assert cluster.request(review, other).status_code == 401


IN_CLUSTER = """
import json, os, ssl, urllib.error, urllib.request
own = "/var/run/secrets/kubernetes.io/serviceaccount/"
server = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
headers = {"Authorization": "Bearer " + open(own + "token").read()}
request = urllib.request.Request(server + "/api/v1/secrets", headers=headers)
try:
    urllib.request.urlopen(request, context=ssl.create_default_context(cafile=own + "ca.crt"))
except urllib.error.HTTPError as error:
    print(json.load(error)["message"], flush=True)
"""


def test_a_client_finds_the_api_server(cluster, namespace, pod, eventually):
    """With what every client in a cluster reads: two variables, the token, and the certificate."""
    command = ["python3", "-c", IN_CLUSTER + "raise SystemExit(1)"]
    pod("", command=command, terminationMessagePolicy="FallbackToLogsOnError")

    def message():
        states = cluster.get("pod", "one", "-n", namespace)["status"].get("containerStatuses", ())
        return [each["lastState"].get("terminated", {}).get("message", "") for each in states]

    eventually(lambda: any(message()))
    assert f'User "system:serviceaccount:{namespace}:default" cannot list' in message()[0]


def test_objects_reach_containers(cluster, namespace, pod, eventually, tmp_path):
    """Environment and files wait for their objects, and the files follow them."""
    out = {"name": "out", "hostPath": {"path": str(tmp_path)}}
    settings = {
        "name": "settings",
        "configMap": {"name": "settings", "items": [{"key": "mode", "path": "m"}]},
    }
    mounts = [{"name": "settings", "mountPath": "/none/s"}, {"name": "out", "mountPath": "/none/out"}]
    token = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "creds", "key": "token"}}}
    limit = {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}
    script = "while :; do echo $TOKEN $CPUS $(cat /none/s/m) > /none/out/new; mv /none/out/new /none/out/x; "
    script += "sleep 0.2; done"
    resources = {"limits": {"cpu": "100m"}}
    pod(script, *mounts, volumes=[out, settings], env=[token, limit], resources=resources)

    def waiting():
        states = cluster.get("pod", "one", "-n", namespace)["status"].get("containerStatuses", ())
        return [each["state"].get("waiting", {}) for each in states]

    eventually(lambda: [each.get("reason") for each in waiting()] == ["ContainerCreating"])
    eventually(
        lambda: 'ConfigMap "settings" not found' in cluster.kubectl("describe", "pod", "one", "-n", namespace)
    )
    data = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"mode": "fast"},
    }
    cluster.apply(data, namespace=namespace)
    eventually(lambda: [each.get("reason") for each in waiting()] == ["CreateContainerConfigError"])
    assert 'Secret "creds" not found' in waiting()[0]["message"]
    cluster.kubectl("create", "secret", "generic", "creds", "--from-literal=token=t-1", "-n", namespace)
    eventually(lambda: (tmp_path / "x").exists() and (tmp_path / "x").read_text() == "t-1 100 fast\n")
    cluster.apply(data | {"data": {"mode": "slow"}}, namespace=namespace)
    eventually(lambda: (tmp_path / "x").read_text() == "t-1 100 slow\n")


def test_a_claim_is_the_directory_of_its_volume(cluster, namespace, pod, eventually, tmp_path):
    """A PersistentVolume with a path of this machine is where the data is."""
    size = {"storage": "1Mi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(tmp_path)},
            "storageClassName": namespace,
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": size},
            "storageClassName": namespace,
        },
    }
    cluster.apply(volume, claim, namespace=namespace)
    used = {"name": "c", "persistentVolumeClaim": {"claimName": "models"}}
    pod("echo x > /none/c/x; sleep 999", {"name": "c", "mountPath": "/none/c"}, volumes=[used])
    eventually(lambda: (tmp_path / "x").exists())
    cluster.kubectl("delete", "pod", "one", "-n", namespace)
    cluster.kubectl("delete", "pvc", "models", "-n", namespace, "--wait=false")
    cluster.kubectl("delete", "pv", namespace, "--wait=false")


def test_a_job_with_a_sidecar_completes(cluster, namespace, process_node, eventually):
    """The cluster's Job controller counts the Pod as a success once its sidecar has ended too."""
    name = process_node("jobs", "10.244.69.0/24").name
    sidecar = {
        "name": "proxy",
        "image": "none",
        "restartPolicy": "Always",
        "command": ["sh", "-c", "trap 'exit 0' TERM; touch /none/d/up; while :; do sleep 0.2; done"],
        "startupProbe": {"exec": {"command": ["test", "-e", "/none/d/up"]}, "periodSeconds": 1},
        "volumeMounts": [{"name": "d", "mountPath": "/none/d"}],
    }
    main = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", "ls /none/d"],
        "volumeMounts": [{"name": "d", "mountPath": "/none/d"}],
    }
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": name},
        "restartPolicy": "Never",
        "initContainers": [sidecar],
        "containers": [main],
        "volumes": [{"name": "d", "emptyDir": {}}],
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}}
    cluster.apply(job | {"spec": {"backoffLimit": 0, "template": {"spec": spec}}}, namespace=namespace)
    cluster.kubectl("wait", "--for=condition=Complete", "job/one", "-n", namespace, "--timeout=60s")
    [pod] = cluster.get("pods", "-n", namespace)["items"]
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["status"]["qosClass"] == "BestEffort"
    [status] = pod["status"]["initContainerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 0
    described = cluster.kubectl("describe", "pod", pod["metadata"]["name"], "-n", namespace)
    assert "Exit Code:    0" in described
    assert "Reason:       Completed" in described
