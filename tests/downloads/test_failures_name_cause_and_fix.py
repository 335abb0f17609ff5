"""A failed download says what is wrong and what to do, and has an exit code for each cause."""

import json
import socket

import pytest

from headgate import downloads
from headgate.downloads.retries import Backoff

CASES = {
    "no such repository": (
        "hf://org/none",
        {},
        21,
        "has no repository org/none: check the name; if it is private",
    ),
    "not for this token": (
        "hf://org/none",
        {"HF_AUTH_TOKEN": "good"},
        21,
        "has no repository org/none: check the name, and that the account of the token may read it",
    ),
    "private": ("hf://org/private", {}, 21, "set HF_AUTH_TOKEN to a token that may read it"),
    "wrong token": ("hf://org/name", {"HF_TOKEN": "bad"}, 26, "does not accept the token; set HF_AUTH_TOKEN"),
    "gated": ("hf://org/gated", {}, 24, "hf://org/gated is gated: request access at http"),
    "gated for this token": ("hf://org/gated", {"HF_TOKEN": "good"}, 24, "with the account of the token"),
    "no such revision": ("hf://org/name@v9", {}, 22, "hf://org/name@v9 has no revision 'v9': name a branch"),
    "no revision of the environment": ("hf://org/name", {"HF_REVISION": "v9"}, 22, "no revision 'v9'"),
    "no files": ("hf://org/empty", {}, 23, "hf://org/empty has no files"),
    "no files match": (
        "hf://org/name",
        {"DOWNLOAD_INCLUDE": "*.gguf"},
        23,
        "has no files that match the patterns",
    ),
    "other scheme": (
        "ms://org/name",
        {},
        20,
        "ms:// is not supported; write hf://org/name[@revision], s3://",
    ),
    "no repository": ("hf://org/name/file", {}, 20, "write a repository as hf://org/name[@revision]"),
    "bad bucket": ("s3://UPPER/x", {}, 20, "'UPPER' is not the name of a bucket"),
    "bad endpoint": (
        "hf://org/name",
        {"HF_ENDPOINT": "http://"},
        20,
        "write the endpoint as https://host[:port]",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_cause_has_a_message_and_an_exit_code(run, hub, repository, tmp_path, case):
    """The message is on standard error, in the status file, and in the termination message."""
    source, variables, code, message = CASES[case]
    hub.repositories["org/private"] = type(repository)({"a": b"a"}, token="other")
    hub.repositories["org/gated"] = type(repository)({"a": b"a"}, is_gated=True)
    hub.repositories["org/empty"] = type(repository)({})
    termination = tmp_path / "termination-log"
    termination.touch()

    process = run(
        "download",
        "--source",
        source,
        "--output-dir",
        tmp_path / "model",
        "--status-dir",
        tmp_path / "status",
        **{"TERMINATION_LOG": str(termination), **variables},
    )
    _, problems = process.communicate(timeout=120)

    assert process.returncode == code, problems
    assert problems.startswith("Error: ")
    assert problems.count("\n") == 1
    assert message in problems
    status = json.loads((tmp_path / "status" / "model.json").read_text())
    assert status["phase"] == "Failed"
    assert status["error"]["message"] == problems.removeprefix("Error: ").strip()
    assert termination.read_text() == f"{status['error']['reason']}: {status['error']['message']}"
    assert not (tmp_path / "model").exists()


def test_no_file_of_a_directory_matches(tmp_path):
    """The directory has files, so that the patterns are what to look at."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "config.json").touch()
    options = downloads.Options(patterns=downloads.Patterns(include=["*.gguf"]))
    with pytest.raises(downloads.DownloadError, match="source has no files that match the patterns") as told:
        downloads.fetch(str(tmp_path / "source"), tmp_path / "m", {}, options=options)
    assert told.value.reason is downloads.Reason.NO_FILES


def test_an_endpoint_that_does_not_respond_is_given_up(tmp_path):
    """After some attempts; the message has the reason of the last one, as reports have before."""
    seen: list[downloads.Snapshot] = []
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        options = downloads.Options(backoff=Backoff(first_s=0.01, longest_s=0.1))
        with pytest.raises(downloads.DownloadError) as told:
            downloads.fetch(
                *("hf://org/name", tmp_path / "m", {"HF_ENDPOINT": endpoint}),
                options=options,
                report=seen.append,
            )

    assert {each.phase for each in seen} == {"Listing"}
    assert [each.retries for each in seen] == [*range(8)]
    assert all("Connection refused" in each.problem for each in seen[1:])
    assert told.value.reason is downloads.Reason.UNREACHABLE
    assert "listing hf://org/name failed 8 times in a row: 127.0.0.1: " in str(told.value)
    assert "Connection refused. Check the endpoint and the network" in str(told.value)


def test_a_target_that_holds_something_else_is_left_alone(run, hub, repository, tmp_path):
    """Neither files of somebody else nor another model are overwritten."""
    target = tmp_path / "model"
    target.mkdir()
    (target / "mine").write_text("mine")
    arguments = ("download", "--source", "hf://org/name", "--output-dir")

    process = run(*arguments, target)
    _, problems = process.communicate(timeout=120)
    assert process.returncode == 31
    assert f"{target} exists, but is no complete download" in problems
    assert (target / "mine").read_text() == "mine"

    assert run(*arguments, tmp_path / "other", "--include", "*.json").wait(120) == 0
    process = run(*arguments, tmp_path / "other")
    _, problems = process.communicate(timeout=120)
    assert process.returncode == 31
    source = f"hf://org/name of {hub.url}"
    assert f"holds {source} (--include *.json), but {source} is wanted" in problems


def test_a_download_that_lost_files_is_repeated(run, hub, repository, tmp_path):
    """The sizes of all files are compared with the manifest each time."""
    target = tmp_path / "model"
    arguments = ("download", "--source", "hf://org/name", "--output-dir", target)
    assert run(*arguments).wait(120) == 0
    (target / "config.json").unlink()

    assert run(*arguments).wait(120) == 0

    assert (target / "config.json").read_bytes() == repository.files["config.json"]
    assert [path.name for path in (tmp_path / ".headgate" / "model").iterdir()] == ["lock"]


def test_a_status_directory_that_cannot_be_made_is_named(run, tmp_path):
    """In one line."""
    (tmp_path / "file").touch()
    process = run(
        "download",
        "--source",
        "/x",
        "--output-dir",
        tmp_path / "m",
        "--status-dir",
        tmp_path / "file" / "sub",
    )
    _, problems = process.communicate(timeout=60)

    assert process.returncode == 1
    assert problems == f"Error: --status-dir {tmp_path}/file/sub: Not a directory\n"


def test_a_cache_names_directories_by_the_hash_of_the_source(run, hub, repository, tmp_path):
    """As the controller does for cacheURI; the token is in no output."""
    process = run(
        "download",
        "--source",
        "hf://org/name",
        "--cache-dir",
        tmp_path / "cache",
        "--output",
        "json",
        HF_AUTH_TOKEN="good",
    )
    told, problems = process.communicate(timeout=120)

    assert process.returncode == 0, problems
    directory = tmp_path / "cache" / "325a352ab662e1c6522c5d3b8c25382b"
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.name != ".headgate"] == [
        directory.name
    ]
    last = json.loads(told.splitlines()[-1])
    assert last["phase"] == "Complete"
    assert last["bytes_done"] == last["bytes_total"] == sum(map(len, repository.files.values()))
    assert "good" not in told + problems
