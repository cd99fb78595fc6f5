"""The freshness check passes on what was written, and fails on every way a page can be stale."""

from __future__ import annotations

from pathlib import Path

from tools.generated_docs import pages, stale, write


def test_what_was_just_written_is_fresh(tmp_path: Path) -> None:
    expected = pages()
    write(tmp_path, expected)
    assert stale(tmp_path, expected) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cli.md", "settings.md"]


def test_a_page_that_is_missing_or_differs_is_stale(tmp_path: Path) -> None:
    expected = {"one.md": "1\n", "two.md": "2\n", "three.md": "3\n"}
    write(tmp_path, expected)
    (tmp_path / "one.md").unlink()
    (tmp_path / "two.md").write_text("2 \n", encoding="utf-8")
    assert stale(tmp_path, expected) == ["one.md", "two.md"]
