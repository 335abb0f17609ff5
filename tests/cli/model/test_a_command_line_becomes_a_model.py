"""`headgate serve --print`: the Model of a command line, or an error that says what to write instead."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from headgate.cli import main
from headgate.cli.model import building, running

QWEN = "hf://Qwen/Qwen3-0.6B"


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "HEADGATE_STATE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def serve(*words: str) -> Result:
    return CliRunner().invoke(main, ["serve", *words], catch_exceptions=False)


def printed(*words: str) -> str:
    result = serve(*words, "--print") if "--" not in words else serve("--print", *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_uri_is_enough(tmp_path: Path) -> None:
    """The name comes from the repository; downloads are kept in the user's cache."""
    assert (
        printed(QWEN)
        == f"""\
apiVersion: registry.volcano.sh/v1alpha1
kind: Model
metadata:
  name: qwen3-0-6b
spec:
  backends:
  - name: vllm
    type: vLLM
    modelURI: {QWEN}
    cacheURI: hostpath://{tmp_path}/.cache/headgate/models
    minReplicas: 1
    maxReplicas: 1
    workers:
    - type: server
"""
    )


def test_every_option_has_its_field() -> None:
    """Flags of the engine follow two dashes."""
    words = (
        f"{QWEN} --engine sglang --name chat -n team --replicas 3 --adapter sql=hf://o/sql --cache pvc://c/d"
        " --env HF_ENDPOINT=http://mirror --env A= --image sglang:1 --gpus 2 -- --tp-size 2 --enable-lora"
    )
    model = yaml.safe_load(printed(*words.split()))
    assert model["metadata"] == {"name": "chat", "namespace": "team"}
    assert model["spec"]["backends"] == [
        {
            "name": "sglang",
            "type": "SGLang",
            "modelURI": QWEN,
            "cacheURI": "pvc://c/d",
            "env": [{"name": "HF_ENDPOINT", "value": "http://mirror"}, {"name": "A", "value": ""}],
            "minReplicas": 3,
            "maxReplicas": 3,
            "workers": [
                {
                    "type": "server",
                    "image": "sglang:1",
                    "resources": {"limits": {"nvidia.com/gpu": "2"}},
                    "config": {"tp-size": 2, "enable-lora": True},
                }
            ],
            "loraAdapters": [{"name": "sql", "artifactURL": "hf://o/sql"}],
        }
    ]


def test_programs_get_json() -> None:
    """The same object."""
    assert json.loads(printed(QWEN, "-o", "json")) == yaml.safe_load(printed(QWEN))


def test_a_directory_becomes_a_claim_of_the_node(tmp_path: Path) -> None:
    """The name has a mark of the path, so that two directories of one name differ."""
    for parent in ("a", "b"):
        (tmp_path / parent / "My_Weights").mkdir(parents=True)
        (tmp_path / parent / "My_Weights" / "config.json").write_text("{}")
    first, second = printed("./a/My_Weights"), printed("b/My_Weights")
    uri = yaml.safe_load(first)["spec"]["backends"][0]["modelURI"]
    assert uri.startswith("pvc://my-weights-")
    assert uri != yaml.safe_load(second)["spec"]["backends"][0]["modelURI"]
    assert yaml.safe_load(first)["metadata"]["name"] == "my-weights"
    link = f".headgate/node/claims/default_{uri.removeprefix('pvc://')}"
    assert first.splitlines()[0] == f"# {uri}: ln -s {tmp_path}/a/My_Weights {link}"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("http://x/y", "unknown scheme http://; download the weights to a directory"),
        ("https://huggingface.co/Qwen/Qwen3-0.6B/tree/main", "write hf://Qwen/Qwen3-0.6B"),
        ("gs://b/c", "unknown scheme gs://; copy the weights to a bucket with an S3 API"),
        ("xx://b", "unknown scheme xx://; known are hf://, s3://, pvc:// and directories"),
        ("Qwen/Qwen3-0.6B", "for a repository of the hub, write hf://Qwen/Qwen3-0.6B"),
        ("./weights", "'./weights': there is no such directory"),
        ("hf://", "'hf://': nothing usable follows hf://"),
        ("hf://a/___", "'hf://a/___' has no letter or digit to make a name of: give one with --name"),
        (f"{QWEN} --name Chat", "--name 'Chat': the model must have 1 to 63 lower-case letters"),
        (f"{QWEN} --name {'a' * 64}", "the model must have 1 to 63"),
        (f"{QWEN} --adapter qwen3-0-6b=hf://a/b", "the model has this name; give one of them another name"),
        (f"{QWEN} --adapter sql", "--adapter 'sql': write --adapter NAME=VALUE"),
        (f"{QWEN} --adapter sql=", "--adapter 'sql=': write --adapter NAME=VALUE"),
        (f"{QWEN} --adapter a=hf://x/y --adapter a=hf://x/z", "--adapter a=...: given twice"),
        (f"{QWEN} --adapter a=ftp://x", "unknown scheme ftp://"),
        (f"{QWEN} --env 1=2", "--env 1=...: not a name of an environment variable"),
        (f"{QWEN} --cache s3://x", "'s3://x': a cache is hostpath:///DIRECTORY or pvc://CLAIM"),
        (f"{QWEN} --max-model-len 5", "Flags of the engine follow --, as in: SOURCE -- --max-model-len"),
        (f"{QWEN} -- --max-model-len", "--max-model-len: needs a value"),
        ("-- --max-model-len 5", "'--max-model-len' is not a source: name it before the --"),
    ],
)
def test_a_mistake_is_named_with_a_fix(words: str, error: str) -> None:
    """Before anything is started or applied."""
    result = serve("--print", *words.split())
    assert result.exit_code == 2, result.output
    assert error in " ".join(result.stderr.split())


def test_a_file_or_an_empty_directory_is_no_model(tmp_path: Path) -> None:
    """The directory that has the weights is meant."""
    (tmp_path / "model.gguf").touch()
    (tmp_path / "empty").mkdir()
    assert "is a file: name the directory that it is in" in serve("model.gguf", "--print").stderr
    assert "the directory is empty" in serve("empty", "--print").stderr


def test_secrets_are_known_by_their_names():
    """The values of others may be in a Model, which many can read."""
    env = {
        "HF_TOKEN": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "OPENAI_API_KEY": "x",
        "HF_HOME": "x",
        "TOKENIZER": "x",
    }
    assert building.secrets_in(env) == ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY"]


@pytest.mark.parametrize("output", ["json", "text"])
def test_a_wait_that_ends_names_the_last_condition(output, capsys, monkeypatch):
    """With -o json, the result is an object too."""
    monkeypatch.setenv("KUBECONFIG", "/dev/null")
    server = SimpleNamespace(kubeconfig=None, context=None, machine=None)
    place = SimpleNamespace(gateway="http://g", machine=None, server=server)
    job = SimpleNamespace(
        wanted=SimpleNamespace(name="m"), output=output, timeout_s=3.0, place=place, gateway=None
    )
    manifest = SimpleNamespace(content={"metadata": {"name": "m", "namespace": "n"}})
    run = running._Run(job, manifest)

    def end():
        run._note("no such image")
        raise TimeoutError

    with pytest.raises(
        click.ClickException, match="n/m did not answer in 3 s: no such image; the Model stays"
    ):
        running._explained(job, run, end)
    written = capsys.readouterr().out
    if output == "json":
        assert json.loads(written) == {
            "name": "m",
            "namespace": "n",
            "url": "http://g",
            "ready": False,
            "reason": "did not answer in 3 s: no such image",
        }
    else:
        assert not written
