"""The control plane authenticates every request, and grants only what roles allow."""

import subprocess

MODELROUTES = "/apis/networking.volcano.sh/v1alpha1/namespaces/{}/modelroutes"


def test_a_request_without_a_token_is_anonymous_and_may_do_nothing(cluster):
    refused = cluster.request("/api/v1/namespaces")
    assert refused.status_code == 403
    assert 'User "system:anonymous" cannot list resource "namespaces"' in refused.json()["message"]


def test_an_unknown_token_is_refused(cluster):
    assert cluster.request("/api/v1/namespaces", token="nobody").status_code == 401


def test_an_account_may_do_what_its_role_allows(cluster, namespace, eventually):
    """The token is one that the API server has signed with the key of the control plane."""
    cluster.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    token = cluster.kubectl("create", "token", "reader", "-n", namespace).strip()
    path = MODELROUTES.format(namespace)
    refused = cluster.request(path, token)
    assert refused.status_code == 403
    assert f"system:serviceaccount:{namespace}:reader" in refused.json()["message"]
    role = ["--verb=list", "--resource=modelroutes.networking.volcano.sh"]
    cluster.kubectl("create", "role", "routes", "-n", namespace, *role)
    binding = ["--role=routes", f"--serviceaccount={namespace}:reader"]
    cluster.kubectl("create", "rolebinding", "routes", "-n", namespace, *binding)
    eventually(lambda: cluster.request(path, token).status_code == 200)
    assert cluster.request(f"/api/v1/namespaces/{namespace}/pods", token).status_code == 403


def test_the_version_is_that_of_the_programs(cluster, programs):
    """`kubectl version` and the skew warnings of clients depend on it."""
    token = cluster.kubectl("config", "view", "--raw", "-o", "jsonpath={.users[0].user.token}")
    served = cluster.request("/version", token).json()
    ran = subprocess.run(
        [programs / "kube-apiserver", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == f"Kubernetes {served['gitVersion']}"
    assert f"v{served['major']}.{served['minor']}." in served["gitVersion"]
