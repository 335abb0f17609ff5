"""Several tenants may have one cache: what one puts there is not taken by another for something else."""

import os

import pytest

from headgate import downloads
from headgate.downloads import cache, lease, manifest

HUB = "hf://org/name"


def test_the_same_name_on_another_hub_is_another_model(hub, repository, tmp_path):
    """The message names both hubs; the download of the one is not served for the other."""
    target = tmp_path / "model"
    downloads.fetch(HUB, target, {"HF_ENDPOINT": hub.url})
    with pytest.raises(downloads.DownloadError) as told:
        downloads.fetch(HUB, target, {})
    assert told.value.reason is downloads.Reason.TARGET_IN_USE
    assert f"{HUB} of {hub.url}, but {HUB} of https://huggingface.co is wanted" in str(told.value)
    assert "name another directory, or remove it" in str(told.value)


def test_spellings_of_one_hub_are_one(hub, repository, tmp_path):
    """A final slash and capitals make no other hub."""
    target = tmp_path / "model"
    url = hub.url.replace("127.0.0.1", "localhost")
    first = downloads.fetch(HUB, target, {"HF_ENDPOINT": url})
    spelled = url.replace("localhost", "LocalHost") + "/"
    assert downloads.fetch(HUB, target, {"HF_ENDPOINT": spelled}) == first


def test_a_pipe_in_place_of_a_manifest_is_none(tmp_path):
    """Nobody waits for a writer."""
    own = tmp_path / "model" / ".headgate"
    own.mkdir(parents=True)
    os.mkfifo(own / "manifest.json")
    assert manifest.read(tmp_path / "model") is None
    assert cache.entries(tmp_path) == []
    os.mkfifo(tmp_path / "lease.json")
    assert lease.read(tmp_path / "lease.json") is None
