"""Log lines and the status file show how far a download is, to people and to programs."""

import json
import threading

import msgspec

from headgate import downloads
from headgate.cli.download_reports import Reports


def test_the_status_file_is_complete_at_any_time(run, hub, repository, tmp_path):
    """A reader never sees half a file; the numbers only grow."""
    hub.pace_s = 0.002
    status = tmp_path / "status" / "weights.json"
    process = run(
        "download",
        "--source",
        "hf://org/name",
        "--output-dir",
        tmp_path / "model",
        "--name",
        "weights",
        "--status-dir",
        tmp_path / "status",
    )
    seen = []
    while process.poll() is None:
        if status.exists():
            seen.append(json.loads(status.read_text()))
    last = json.loads(status.read_text())

    assert process.returncode == 0
    assert last["phase"] == "Complete"
    assert last["files_done"] == last["files_total"] == 5
    assert last["source"] == "hf://org/name"
    assert last["directory"] == str(tmp_path / "model")
    assert {each["phase"] for each in seen} <= {"Listing", "Downloading", "Complete"}
    counts = [each["bytes_done"] for each in seen if each["phase"] == "Downloading"]
    assert counts == sorted(counts)
    assert [path.name for path in (tmp_path / "status").iterdir()] == ["weights.json"]


def test_lines_come_every_five_seconds(capsys, tmp_path):
    """And with each new phase; a line has the share, the sizes, the rate and the time that is left."""
    reports = Reports("hf://org/name", "weights", tmp_path / "model", None, "text")
    now = downloads.Snapshot("Downloading", 3_400_000_000, 14_000_000_000, 2, 7, 212_000_000.0)
    reports.show(downloads.Snapshot("Waiting", waiting_for="host-1 (process 7), 1.0 GB of 14.0 GB"))
    reports.show(downloads.Snapshot("Listing"))
    for _ in range(20):
        reports.show(now)
    reports._line_at -= 5
    reports.show(now)
    for _ in range(20):
        reports.show(msgspec.structs.replace(now, retries=3, problem="hub: Connection refused"))

    line = "Downloading hf://org/name: 24 %, 3.4 GB of 14.0 GB, 2 of 7 files, 212.0 MB/s, 50 s left"
    assert capsys.readouterr().out.splitlines() == [
        "Waiting for host-1 (process 7), 1.0 GB of 14.0 GB, which downloads hf://org/name",
        "Listing hf://org/name",
        line,
        line,
        f"{line}, 3 retries; hub: Connection refused",
    ]


def test_a_volume_without_space_for_the_status_does_not_end_the_download(hub, repository, tmp_path):
    """The status is lost, not the model."""
    reports = Reports("hf://org/name", "weights", tmp_path / "model", tmp_path / "missing", "text")
    found = downloads.fetch(
        "hf://org/name", tmp_path / "model", {"HF_ENDPOINT": hub.url}, report=reports.show
    )
    assert len(found.files) == 5


def test_a_program_can_end_a_download(hub, repository, tmp_path):
    """`Halt` is for the runtime sidecar, which downloads adapters in its own process."""
    hub.pace_s = 0.02
    halt = downloads.Halt()
    ended = []

    def work():
        try:
            downloads.fetch("hf://org/name", tmp_path / "model", {"HF_ENDPOINT": hub.url}, halt=halt)
        except downloads.DownloadError as error:
            ended.append(error.reason)

    thread = threading.Thread(target=work)
    thread.start()
    while not hub.sent_bytes:
        pass
    halt.set()
    thread.join(60)

    assert ended == [downloads.Reason.INTERRUPTED]
