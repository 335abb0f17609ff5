"""`headgate download` brings a repository into a directory, with a manifest, and does it once."""

import hashlib
import json


def test_all_files_arrive_with_a_manifest(run, hub, repository, tmp_path):
    """The directory has every file of the repository, and a manifest with their hashes."""
    target = tmp_path / "cache" / "model"
    first = run("download", "--source", "hf://org/name", "--output-dir", target)
    told, problems = first.communicate(timeout=120)

    assert first.returncode == 0, problems
    assert f"Complete: 5 files, 34.1 MB, in {target}" in told
    for path, content in repository.files.items():
        assert (target / path).read_bytes() == content
    manifest = json.loads((target / ".headgate" / "manifest.json").read_text())
    assert manifest["source"] == "hf://org/name"
    assert manifest["revision"] == repository.commit
    assert {file["path"]: file["sha256"] for file in manifest["files"]} == {
        path: hashlib.sha256(content).hexdigest() for path, content in repository.files.items()
    }


def test_a_complete_download_needs_no_hub(run, hub, repository, tmp_path):
    """A second run finds the manifest, and sends no request."""
    arguments = ("download", "--source", "hf://org/name", "--output-dir", tmp_path / "model")
    assert run(*arguments).wait(120) == 0
    hub.requests.clear()

    assert run(*arguments).wait(120) == 0
    assert hub.requests == []
