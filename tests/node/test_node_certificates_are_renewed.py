"""The certificates of a node's API: its own, given ones, and those that replace them while it runs."""

import datetime
import ssl

import pytest
from cryptography import x509

from headgate import cluster
from headgate.node.kubelet import certificates
from headgate.serving import certificates as issuing


def issue(directory, name):
    """Files of a new certificate, and the authority that has signed it."""
    issued = issuing.issue(name, (name,), datetime.datetime.now(datetime.UTC))
    files = certificates.TlsFiles(*(directory / each for each in ("crt", "key", "ca")))
    for file, content in zip(
        (files.certificate, files.key, files.client_ca), issued[1:] + issued[:1], strict=True
    ):
        file.write_bytes(content)
    return files


def of(files, directory, client=None):
    return certificates.Certificates(files, client, directory, ("node", "127.0.0.1"))


def authorities(context):
    return [dict(pair for part in each["subject"] for pair in part) for each in context.get_ca_certs()]


async def test_files_that_have_changed_are_loaded(tmp_path):
    found = of(issue(tmp_path, "one"), tmp_path)
    await found.refresh()
    first = found.context
    await found.refresh()
    assert found.context is first
    issue(tmp_path, "two")
    await found.refresh()
    assert found.context is not first
    assert found.context.verify_mode is ssl.CERT_OPTIONAL
    assert authorities(found.context) == [{"commonName": "headgate-ca"}]


async def test_what_cannot_be_loaded_changes_nothing(tmp_path):
    files = issue(tmp_path, "one")
    found = of(files, tmp_path)
    await found.refresh()
    first = found.context
    files.certificate.write_text("half a cert")
    with pytest.raises(cluster.ConfigurationError, match="--tls-cert-file"):
        await found.refresh()
    issue(tmp_path, "two")
    files.client_ca.write_text("half an authority")
    with pytest.raises(cluster.ConfigurationError, match="--client-ca-file"):
        await found.refresh()
    files.client_ca.unlink()
    with pytest.raises(cluster.ConfigurationError, match="cannot be read"):
        await found.refresh()
    assert found.context is first


async def test_a_node_makes_its_own(machine, tmp_path, caplog):
    """For its name and address, readable by its user alone; without authorities, there is a warning."""
    found = of(certificates.TlsFiles(), tmp_path, machine.client)
    await found.refresh()
    assert found.context.verify_mode is ssl.CERT_NONE
    assert "give --client-ca-file" in caplog.text
    pem = (tmp_path / "kubelet.crt").read_bytes()
    names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert {str(each.value) for each in names.value} == {"node", "127.0.0.1"}
    assert (tmp_path / "kubelet.key").stat().st_mode & 0o777 == 0o600


async def test_authorities_come_from_the_api_server(machine, tmp_path):
    """And are replaced when it publishes others."""
    files = issue(tmp_path, "client")
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": certificates.CONFIG_MAP, "namespace": certificates.CONFIG_MAP_NAMESPACE},
        "data": {certificates.CONFIG_MAP_KEY: files.client_ca.read_text()},
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": certificates.CONFIG_MAP_NAMESPACE}}
    for each in (space, manifest):
        await machine.client.apply_manifest(each)
    found = of(certificates.TlsFiles(), tmp_path, machine.client)
    await found.refresh()
    first = found.context
    assert len(authorities(first)) == 1
    manifest["data"] = {certificates.CONFIG_MAP_KEY: files.client_ca.read_text() * 2 + other(tmp_path)}
    await machine.client.apply_manifest(manifest)
    await found.refresh()
    assert len(authorities(found.context)) == 2
    assert found.context is not first


def other(directory):
    (directory / "other").mkdir()
    return issue(directory / "other", "other").client_ca.read_text()
