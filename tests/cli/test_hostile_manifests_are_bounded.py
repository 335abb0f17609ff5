"""Text that wants to cost time, memory or the stack is refused at a place, before it costs anything."""

from pathlib import Path

import pytest

from headgate.cli.manifests import composing, read, reading


def problems(tmp_path: Path, text: str) -> list[str]:
    """What is wrong with a file, without its name."""
    file = tmp_path / "hostile.yaml"
    file.write_text(text)
    return [str(problem).removeprefix(str(file)) for problem in read([str(file)]).problems]


def test_aliases_that_multiply_are_counted_before_they_are_copied(tmp_path: Path) -> None:
    """Nine lines that would come to a billion values."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert problems(tmp_path, "\n".join(lines)) == [":5:38: its aliases expand to more than 100000 values"]


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "- " * 200_000])
def test_nesting_is_bounded(tmp_path: Path, text: str) -> None:
    """Deeper than any schema is, and far from where a reader falls over."""
    (told,) = problems(tmp_path, text)
    assert told.endswith(": nested deeper than 100 levels")


def test_nesting_by_aliases_is_bounded(tmp_path: Path) -> None:
    """Each alias adds a level."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 200))]
    (told,) = problems(tmp_path, "\n".join(lines))
    assert told.endswith(": nested deeper than 100 levels")


def test_an_anchor_within_itself_is_refused(tmp_path: Path) -> None:
    """There is no such JSON."""
    assert problems(tmp_path, "a: &a [*a]\n") == [':1:8: anchor "a" contains itself']


def test_sizes_and_numbers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of a file, documents in it, values in a document, files of a directory."""
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 1000)
    monkeypatch.setattr(reading, "MAX_DOCUMENTS", 10)
    monkeypatch.setattr(reading, "MAX_FILES", 1)
    monkeypatch.setattr(composing, "MAX_VALUES", 100)
    assert problems(tmp_path, "#" * 1001) == [": is longer than 1000 bytes"]
    assert problems(tmp_path, "---\n" * 100) == [": has more than 10 documents"]
    assert problems(tmp_path, f"[{'1,' * 200}]") == [":1:200: has more than 100 values"]
    (tmp_path / "more.yaml").write_text("")
    assert str(read([str(tmp_path)]).problems[0]) == f"{tmp_path}: has more than 1 manifests"


def test_a_device_without_end_is_read_no_further() -> None:
    """Its size says nothing."""
    assert str(read(["/dev/zero"]).problems[0]) == f"/dev/zero: is longer than {reading.MAX_FILE_BYTES} bytes"


def test_an_address_is_not_fetched() -> None:
    """And says how it is done."""
    (problem,) = read(["https://example.com/a.yaml"]).problems
    assert (
        problem.suggestion
        == "URLs are not fetched; use: curl -sSL https://example.com/a.yaml | headgate ... -f -"
    )
