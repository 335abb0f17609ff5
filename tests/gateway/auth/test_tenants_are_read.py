"""A file of tenants is judged as a whole, with the place of each error."""

import pytest

from headgate.dataplane.credentials import tenant_file
from headgate.dataplane.credentials.tenant_limits import routes_of, weights_of

HEAD = "apiVersion: headgate.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-a}\n"


@pytest.fixture
def read(tmp_path):
    path = tmp_path / "tenants.yaml"

    def read(text):
        path.write_text(text)
        return tenant_file.read(path)

    return read


def test_what_it_says(read):
    """Every field."""
    found = read(
        HEAD + "spec:\n  models: [llama-*]\n  subjects: ['*@a.example']\n  share: 4\n"
        "  limits:\n  - {unit: minute, inputTokensPerUnit: 1000}\n"
        "  - {unit: day, outputTokensPerUnit: 5, global: {redis: {address: 'r:6379'}}}\n"
        "  priority: {min: -1, max: 2}\n  mayChoose: [Objective, FairnessID]\n"
        "---\n" + HEAD.replace("team-a", "team-b") + "spec: {}\n"
    )
    assert list(found) == ["team-a", "team-b"]
    assert weights_of(found) == ("team-a=4",)
    minute, day = routes_of(found)
    assert (minute.name, minute.limits.input, minute.limits.unit_s) == ("tenant/team-a/minute", 1000, 60)
    assert (day.limits.output, day.limits.redis_address) == (5, "r:6379")


def test_nothing_is_no_tenants(read):
    """An empty file is valid."""
    assert read("") == {}
    assert read("---\n---\n") == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "is not YAML"),
        ("- a", "document 1: a Tenant is needed"),
        ("kind: Tenant", "apiVersion: None is not headgate.dev/v1alpha1"),
        (HEAD.replace("Tenant", "Tent"), "kind: 'Tent' is not Tenant"),
        (HEAD.replace("name: team-a", ""), "metadata.name"),
        (HEAD, "Tenant team-a: spec: Required value"),
        (HEAD + "spec: {model: []}", "Tenant team-a: spec.model: there is no such field"),
        (HEAD + "spec: {share: 0}", "spec.share"),
        (HEAD + "spec: {share: '3'}", "spec.share"),
        (HEAD + "spec: {models: ['']}", "spec.models[0]"),
        (HEAD + "spec: {limits: [{unit: week}]}", "spec.limits[0].unit"),
        (HEAD + "spec: {limits: [{unit: day}, {unit: day}]}", "spec.limits[1]: Duplicate value"),
        (HEAD + "spec: {limits: [{unit: day, inputTokensPerUnit: 0}]}", "spec.limits[0].inputTokensPerUnit"),
        (HEAD + "spec: {priority: {min: 3, max: 2}}", "spec.priority"),
        (HEAD + "spec: {mayChoose: [Everything]}", "spec.mayChoose[0]"),
        (HEAD + "spec: {}\n---\n" + HEAD + "spec: {}", "document 2: metadata.name: team-a is defined twice"),
    ],
)
def test_errors_name_their_field(read, text, told):
    """And the document and the object that it is in."""
    with pytest.raises(tenant_file.TenantFileError) as raised:
        read(text)
    assert told in str(raised.value)
    assert "tenants.yaml" in str(raised.value)
