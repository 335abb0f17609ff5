"""A file of tenants is judged as a whole, with the place of each error."""

import os

import pytest

from headgate.dataplane.credentials import key_file, tenant_file
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


@pytest.mark.parametrize("used", ["models: *a8", "limits: *a8", "limits: [{unit: *a8}]"])
def test_aliases_are_bounded(read, used):
    """A few lines with them could keep the gateway busy for years."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(tenant_file.TenantFileError, match="its aliases expand to more than 1000000 values"):
        read(HEAD + "x:\n  " + "\n  ".join(lines) + f"\nspec: {{{used}}}\n")


def test_an_alias_may_contain_itself(read):
    """It has no end."""
    with pytest.raises(tenant_file.TenantFileError, match="its aliases expand"):
        read(HEAD + "spec: &s {limits: [*s]}\n")


def test_aliases_are_of_use(read):
    """For what several tenants have in common."""
    found = read(HEAD + "spec: {models: &m [a, b], subjects: *m}\n")
    assert found["team-a"].spec.subjects == ["a", "b"]


@pytest.mark.parametrize("read_file", [tenant_file.read, key_file.read])
def test_a_pipe_is_not_waited_for(tmp_path, read_file):
    """The gateway would stand still until somebody writes to it."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ValueError, match="not a regular file"):
        read_file(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "is not YAML"),
        ("a: !!bool x", "is not YAML"),
        ("!!timestamp x", "is not YAML"),
        ("a: !!int ''", "is not YAML"),
        pytest.param("a: " + "[" * 200_000, "nested more than 50 levels", id="deep"),
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
