"""`headgate gateway --objects`: saved files are in effect at once, and mistakes leave what was valid."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from pathlib import Path

import httpx2
import pytest

from headgate.cli.gateway import object_files
from headgate.standalone.files import FollowedFiles

EXAMPLE = Path(__file__).parents[2] / "examples" / "gateway-api" / "gateway.yaml"
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {name}}}
  annotations: {{headgate.dev/address: "127.0.0.1:{port}"}}
spec: {{containers: [{{name: engine}}]}}
"""
SERVER = """
---
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelServer
metadata: {{name: {name}}}
spec: {{inferenceEngine: vLLM, workloadSelector: {{matchLabels: {{app: {name}}}}}}}
"""
ROUTE = """
---
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelRoute
metadata: {{name: {name}}}
spec: {{modelName: {model}, rules: [{{targetModels: [{{modelServerName: {name}}}]}}]}}
"""


def objects(name: str, model: str, port: int = 1) -> str:
    return (POD + SERVER + ROUTE).format(name=name, model=model, port=port)


@pytest.fixture
async def follow(tmp_path: Path, until):
    """Follows the directory; gives what is in effect, by kind and name."""
    tasks = []

    async def start(*paths: Path) -> FollowedFiles:
        files = FollowedFiles([str(each) for each in paths or (tmp_path,)], object_files.read, lambda: None)
        await asyncio.to_thread(files.load)
        tasks.append(asyncio.create_task(files.run()))
        return files

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def routes(files: FollowedFiles) -> set[str]:
    return {each.name for each in files.objects() if each.collection.endswith("/modelroutes")}


async def test_files_come_change_and_go(follow, tmp_path, until) -> None:
    """In directories below, too; hidden ones and others are no files of objects."""
    (tmp_path / "a.yaml").write_text(objects("a", "a"))
    (tmp_path / ".hidden.yaml").write_text("nonsense")
    (tmp_path / "notes.txt").write_text("nonsense")
    files = await follow()
    assert routes(files) == {"a"}
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b.yaml").write_text(objects("b", "b"))
    await until(lambda: routes(files) == {"a", "b"})
    (tmp_path / "a.yaml").unlink()
    await until(lambda: routes(files) == {"b"})
    assert files.errors == {}


async def test_a_bad_edit_leaves_the_last_valid_version(follow, tmp_path, until, caplog) -> None:
    """It is told with file, object, field and value; other files are taken."""
    (tmp_path / "a.yaml").write_text(objects("a", "a"))
    files = await follow()
    before = files.objects()
    (tmp_path / "a.yaml").write_text(objects("a", "a", 2).replace("vLLM", "vLMM"))
    (tmp_path / "b.yaml").write_text(objects("b", "b"))
    await until(lambda: routes(files) == {"a", "b"})
    assert [each for each in files.objects() if each.name == "a"] == before
    (error,) = files.errors[str(tmp_path / "a.yaml")]
    assert error.startswith(f"{tmp_path / 'a.yaml'}:14:")
    assert 'ModelServer default/a: spec.inferenceEngine: Unsupported value: "vLMM"' in error
    assert f"its last valid version stays in effect: {error}" in caplog.text
    (tmp_path / "a.yaml").write_text("a: [")
    await until(lambda: "not YAML" in files.errors[str(tmp_path / "a.yaml")][0])
    (tmp_path / "a.yaml").write_text(objects("a", "a", 3))
    await until(lambda: not files.errors)
    assert any(b"127.0.0.1:3" in each.body for each in files.objects())


async def test_an_object_in_two_files_is_told_with_both(follow, tmp_path, until) -> None:
    """Who had it first keeps it, whatever the files are called."""
    (tmp_path / "b.yaml").write_text(objects("a", "b"))
    files = await follow()
    (tmp_path / "a.yaml").write_text(objects("a", "a"))
    await until(lambda: files.errors)
    told = " ".join(files.errors[str(tmp_path / "a.yaml")])
    assert "defined twice" in told
    assert str(tmp_path / "b.yaml") in told
    assert any(b'"modelName":"b"' in each.body for each in files.objects())
    (tmp_path / "b.yaml").unlink()
    await until(lambda: not files.errors)
    assert any(b'"modelName":"a"' in each.body for each in files.objects())


async def test_an_object_of_the_version_that_stays_is_not_defined_again(follow, tmp_path, until) -> None:
    """A file with a mistake still has the objects that it had."""
    (tmp_path / "b.yaml").write_text(objects("x", "b"))
    files = await follow()
    (tmp_path / "b.yaml").write_text("a: [")
    await until(lambda: files.errors)
    (tmp_path / "a.yaml").write_text(objects("x", "a"))
    await until(lambda: len(files.errors) == 2)
    assert f"is also defined in {tmp_path / 'b.yaml'}" in files.errors[str(tmp_path / "a.yaml")][0]


async def test_a_mounted_config_map_is_followed(follow, tmp_path, until) -> None:
    """Its files are links to links, of which one is moved."""

    def version(name: str, text: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(text)
        (tmp_path / "..new").symlink_to(name)
        (tmp_path / "..new").rename(tmp_path / "..data")

    version("..1", objects("a", "a"))
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    files = await follow()
    assert routes(files) == {"a"}
    version("..2", objects("b", "b"))
    await until(lambda: routes(files) == {"b"})
    assert files.errors == {}


async def test_a_file_that_is_replaced_is_in_effect_within_a_second(follow, tmp_path, until) -> None:
    """Measured once nothing else has to be loaded any more."""
    (tmp_path / "a.yaml").write_text(objects("a", "a"))
    files = await follow(tmp_path / "a.yaml")
    (tmp_path / "new").write_text(objects("b", "b"))
    began = time.process_time()
    os.replace(tmp_path / "new", tmp_path / "a.yaml")
    await until(lambda: routes(files) == {"b"})
    assert time.process_time() - began < 1.0


async def test_a_missing_directory_changes_nothing(follow, tmp_path, until) -> None:
    """A volume that is not mounted is a mistake, and is told; it may come back."""
    folder = tmp_path / "objects"
    folder.mkdir()
    (folder / "a.yaml").write_text(objects("a", "a"))
    files = await follow(folder)
    folder.rename(tmp_path / "elsewhere")
    await until(lambda: files.errors)
    assert files.errors == {str(folder): (f"{folder}: there is no such file or directory",)}
    assert routes(files) == {"a"}
    shutil.copytree(tmp_path / "elsewhere", folder)
    await until(lambda: not files.errors)
    assert routes(files) == {"a"}


async def test_a_removed_file_takes_its_objects_along(follow, tmp_path, until) -> None:
    (tmp_path / "a.yaml").write_text(objects("a", "a"))
    files = await follow(tmp_path / "a.yaml")
    (tmp_path / "a.yaml").unlink()
    await until(lambda: not files.objects())


def test_kinds_without_effect_are_told(tmp_path: Path) -> None:
    """A Deployment has none; a misspelled kind is a mistake."""
    file = tmp_path / "a.yaml"
    file.write_text("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n")
    (read,) = object_files.read([str(file)]).values()
    assert (read.objects, read.errors) == ((), ())
    assert "a Deployment has no effect without an API server" in read.warnings[0]
    file.write_text("apiVersion: networking.volcano.sh/v1alpha1\nkind: ModelRout\nmetadata: {name: a}\n")
    (read,) = object_files.read([str(file)]).values()
    assert "did you mean ModelRoute?" in read.errors[0]


async def test_a_gateway_follows_its_files(
    start_engine, start_gateway, tmp_path, unused_tcp_port_factory
) -> None:
    """It serves what they say, with Gateways, tells mistakes on its pages, and does not start with one."""
    one = await start_engine(models=["m"])
    (tmp_path / "objects").mkdir()
    file = tmp_path / "objects" / "a.yaml"
    file.write_text(objects("a", "m", one.port))
    port = unused_tcp_port_factory()
    entries = EXAMPLE.read_text().replace("8088", str(port))
    (file.parent / "gateway.yaml").write_text(entries + "---" + POD.format(name="sim-base", port=one.port))
    gateway = await start_gateway("--objects", str(file.parent), "--workers", "2")
    assert await gateway.models() == {"m"}
    await gateway.ask("m")
    assert "/v1/chat/completions" in one.asked

    async def is_asked() -> bool:
        with contextlib.suppress(httpx2.ConnectError):  # its port opens a moment later
            await gateway.http.post(f"http://127.0.0.1:{port}/v1/embeddings", json={"model": "any"})
        return "/v1/embeddings" in one.asked

    await gateway.eventually(is_asked)
    file.write_text(objects("b", "second", one.port))

    async def listed() -> bool:
        return await gateway.models() == {"second"}

    await gateway.eventually(listed)
    file.write_text(objects("b", "second", one.port).replace("vLLM", "vLMM"))

    async def told() -> bool:
        return "object_errors" in (await gateway.http.get(f"{gateway.admin_url}/readyz")).json()

    await gateway.eventually(told)
    ready = await gateway.http.get(f"{gateway.admin_url}/readyz")
    assert ready.status_code == 200
    assert 'Unsupported value: "vLMM"' in ready.json()["object_errors"][0]
    assert "headgate_gateway_objects_invalid_files 1.0" in (await gateway.http.get(gateway.metrics_url)).text
    assert [each["objects"] for each in (await gateway.shown())["files"]] == [3, 6]
    assert await gateway.models() == {"second"}
    with pytest.raises(AssertionError, match="Unsupported value"):
        await start_gateway("--objects", str(file.parent))
