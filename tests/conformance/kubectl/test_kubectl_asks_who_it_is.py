"""`kubectl auth`, for the administrator and for a reader with a kubeconfig of his own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.cli.apiserver import apiserver

pytestmark = [pytest.mark.kubectl, pytest.mark.embedded]


def test_whoami_and_can_i(every_kubectl: Any) -> None:
    """The administrator is told his name and that he may do everything."""
    assert "headgate-admin" in every_kubectl("auth", "whoami")
    assert every_kubectl("auth", "can-i", "delete", "pods") == "yes\n"
    assert every_kubectl("auth", "can-i", "*", "*") == "yes\n"


def test_a_reader_is_told_what_he_may(kubectl: Any, tmp_path: Path) -> None:
    """A named token reads, and kubectl prints Kubernetes' refusal for everything else."""
    own = tmp_path / "reader.kubeconfig"
    state = str(kubectl.kubeconfig.parent)  # where the embedded server keeps its tokens, too
    arguments = ["token", "create", "reader", "--kubeconfig", str(own), "--state", state]
    assert CliRunner().invoke(apiserver, arguments).exit_code == 0
    reader = dataclasses.replace(kubectl, kubeconfig=own)
    assert "reader" in reader("auth", "whoami")
    assert reader("auth", "can-i", "list", "pods") == "yes\n"
    assert reader.run("auth", "can-i", "get", "secrets")[:2] == (1, "no\n")
    assert "pods/log" in reader("auth", "can-i", "--list")
    assert reader.run("get", "configmaps,modelroutes").code == 0
    told = reader.refused("create", "configmap", "x")
    assert 'configmaps is forbidden: User "reader" cannot create resource "configmaps"' in told
