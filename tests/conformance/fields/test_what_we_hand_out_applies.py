"""What a person takes from here applies: deploy/crds, and the examples in the docs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import config
from kubernetes.dynamic import DynamicClient

ROOT = Path(__file__).parents[3]
CRDS = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
PAGES = sorted(page for page in (ROOT / "docs" / "reference").glob("*.md") if page.name != "README.md")
EXAMPLE = re.compile(r"^```yaml\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def cluster(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamicClient]:
    """Python's official client, which finds out what is served."""
    found = tmp_path_factory.mktemp("discovery") / "kinds.json"
    with config.new_client_from_config(str(server.kubeconfig)) as connection:
        yield DynamicClient(connection, cache_file=str(found))


@pytest.mark.parametrize("file", CRDS, ids=lambda file: file.stem)
def test_a_definition_applies(file: Path, cluster: DynamicClient) -> None:
    """By server-side apply, in a dry run, with nothing that the server doesn't know."""
    definition = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    definitions = cluster.resources.get(
        api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition"
    )
    stored = definitions.server_side_apply(
        body=definition,
        name=definition["metadata"]["name"],
        field_manager="conformance",
        force_conflicts=True,
        dry_run="All",
        query_params=[("fieldValidation", "Strict")],
    )
    assert stored.spec.to_dict()["versions"][0]["schema"] == definition["spec"]["versions"][0]["schema"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_of_a_page_applies(page: Path, cluster: DynamicClient, namespace: str) -> None:
    """Object by object, as they stand on the page, in a namespace of their own."""
    for text in EXAMPLE.findall(page.read_text()):
        for manifest in yaml.safe_load_all(text):
            kind = cluster.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
            moved = manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}
            created = kind.create(
                body=moved, namespace=namespace, query_params=[("fieldValidation", "Strict")]
            )
            assert created.metadata.uid
