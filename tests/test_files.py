"""Names for new files."""

from __future__ import annotations

from pathlib import Path

from rheo.files import unused, write_text


def test_a_new_file_takes_a_name_that_none_has_and_replaces_nothing(tmp_path: Path) -> None:
    names = []
    for text in ("one", "two", "three"):
        path = unused(tmp_path / "made", "failed")
        write_text(path, text)
        names.append(path.name)
    assert names == ["failed.json", "failed-2.json", "failed-3.json"]
    assert [(tmp_path / "made" / name).read_text() for name in names] == ["one", "two", "three"]
