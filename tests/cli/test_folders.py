from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from pair.cli.folders import folders, node_id, write_private
from pair.errors import SettingsError


def test_pair_home_moves_config_and_state_together(tmp_path: Path) -> None:
    found = folders({"PAIR_HOME": str(tmp_path)})
    assert found.config_file == tmp_path / "config.toml"
    assert found.state == tmp_path


def test_without_it_they_are_the_platforms_own() -> None:
    found = folders({})
    assert found.config.name == found.state.name == "pair"
    assert found.config.is_absolute()


def test_the_id_is_drawn_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    state = tmp_path / "not" / "there"
    first = node_id(state)
    assert len(first) == 32
    assert node_id(state) == first
    (file,) = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert node_id(tmp_path / "other") != first


def test_two_that_start_at_once_agree(tmp_path: Path) -> None:
    gate = threading.Barrier(8)
    found: list[str] = []

    def start() -> None:
        gate.wait()
        found.append(node_id(tmp_path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize("damaged", [b"", b"short\n", b"\xff" * 32, b"0" * 31 + b"g\n"])
def test_a_damaged_id_is_told_and_not_replaced(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "node-id").write_bytes(damaged)
    with pytest.raises(SettingsError, match="id"):
        node_id(tmp_path)
    assert (tmp_path / "node-id").read_bytes() == damaged


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot"):
        node_id(tmp_path / "file" / "state")


def test_a_private_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    assert write_private(file, "a", replace=False)
    assert not write_private(file, "b", replace=False)
    assert file.read_text() == "a"
    assert write_private(file, "c", replace=True)
    assert file.read_text() == "c"
    assert list(tmp_path.iterdir()) == [file]
